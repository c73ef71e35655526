"""Events in, commands out. Live and simulated clusters run this very code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.core.commands import Command, WakeAt
from weft.core.errors import IllegalEventError, InputError, WeftError
from weft.core.events import Event, Failed, Finished, Woken
from weft.core.ledger import RECORDERS, Ledger
from weft.core.plan import check
from weft.core.reasons import Code, Reason
from weft.core.transitions import State
from weft.core.values import Cluster
from weft.core.view import Decider, View

COMPLETIONS = (Finished, Failed)
"""Recorded before all other events of their instant."""


class Scheduler:
    """Record, decide, check, commit: one decision for all events of one instant."""

    def __init__(self, cluster: Cluster, policy: Decider) -> None:
        self.ledger = Ledger(cluster)
        self._policy = policy
        self._wake_at = math.inf
        self._now = -math.inf

    def handle(self, events: Sequence[Event], now: float) -> list[Command]:
        """Record the events, make one decision, and return what is to be done about it.

        An illegal event changes nothing. It is raised when the others of its instant have been recorded; the
        next call decides on those.
        """
        ledger = self.ledger
        self._record(events, now)
        changes, ledger.changes = ledger.changes, []
        try:
            plan = self._policy.decide(View(ledger, changes, now))
            check(plan, ledger, now)
        except Exception:
            ledger.version += 1  # what the policy remembers may be of a plan that never was
            raise
        commands: list[Command] = [*ledger.take_stops()]
        for eviction in plan.evictions:
            commands.append(ledger.evict(eviction, now))
        for grant in plan.grants:
            commands.append(ledger.grant(grant, now))
        if plan.wake_at != self._wake_at:
            self._wake_at = plan.wake_at
            commands.append(WakeAt(plan.wake_at))
        return commands

    def _record(self, events: Sequence[Event], now: float) -> None:
        if now < self._now:
            raise IllegalEventError(f"it is {self._now:g} s already, and something happens at {now:g} s")
        self._now = now
        if len(events) > 1:
            events = sorted(events, key=lambda event: not isinstance(event, COMPLETIONS))  # stable
        illegal: WeftError | None = None
        for event in events:
            if type(event) is Woken:
                self._wake_at = math.inf  # the wish is fulfilled, even if it was too early
            try:
                RECORDERS[type(event)](self.ledger, event, now)
            except WeftError as error:
                illegal = illegal or error
        if illegal is not None:
            raise illegal

    def reason(self, job_id: str, now: float) -> Reason | None:
        """Why a live job does not run; None if it does."""
        job = self.ledger.jobs.get(job_id)
        if job is None:
            raise InputError(f"no live job is called {job_id}", "finished jobs leave the scheduler")
        if job.is_running:
            return None
        if job.state is State.HELD:
            return Reason(Code.HELD)
        return self._policy.explain(View(self.ledger, (), now), job)
