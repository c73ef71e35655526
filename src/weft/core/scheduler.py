"""Events in, commands out. Live and simulated clusters run the same code."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.core import sharing
from weft.core.commands import Command, Preempt, Seat, Start, Tell, Unseat, WakeAt
from weft.core.errors import IllegalEventError, InputError, WeftError
from weft.core.events import Event, Failed, Finished, Held, Lost, Submitted, Woken
from weft.core.job import Job
from weft.core.ledger import Change, Ledger
from weft.core.plan import Eviction, Grant, check
from weft.core.policy_base import Positions, SortedPositions, completed
from weft.core.reasons import Code, Reason
from weft.core.recording import RECORDERS, begin_due
from weft.core.sharing import Withdrawal
from weft.core.transitions import State
from weft.core.values import Cluster
from weft.core.view import Decider, View

PRECEDENCE = tuple(Code)
"""Of several holds, the one that is shown."""
COMPLETIONS = (Finished, Failed, Lost)
"""Recorded before all other events of their instant."""
COMING = (Submitted, Held)
"""Many may be submitted at once: ties are exchanged after the last of them."""


class Scheduler:
    """Record, decide, check, commit: one decision for all events of one instant."""

    def __init__(self, cluster: Cluster | Ledger, policy: Decider) -> None:
        self.ledger = cluster if isinstance(cluster, Ledger) else Ledger(cluster)
        self._policy = completed(policy)
        self._changes: Sequence[tuple[Change, Job]] = ()
        self._wake_at = math.inf
        self._plan_wakes_at = math.inf
        self._now = -math.inf

    def handle(self, events: Sequence[Event], now: float) -> list[Command]:
        """Record the events, make one decision, and return what is to be done about it.

        An illegal event changes nothing. It is raised when the others of its instant have been recorded; the
        next call decides on those.
        """
        self.record(events, now)
        return [*self.decide(now), *self.share(now)]

    def decide(self, now: float) -> list[Command]:
        """Which job holds which devices: one decision on what has been recorded. Then comes `share`.

        A policy that fails has changed nothing; ask again.
        """
        ledger = self.ledger
        if ledger.unordered:
            ledger.reorder()
        if ledger.begins:
            begin_due(ledger, now)
        changes, ledger.changes = ledger.changes, []
        try:
            plan = self._policy.decide(View(ledger, changes, now))
            check(plan, ledger, now)
        except Exception:
            ledger.version += 1  # the policy may remember a plan that was not committed
            raise
        commands: list[Command] = []
        for eviction in plan.evictions:
            commands.append(ledger.evict(eviction, now))
        for grant in _named_first(plan.grants, ledger) if ledger.exceptions else plan.grants:
            commands.append(ledger.grant(grant, now))
        self._changes, self._plan_wakes_at = changes, plan.wake_at
        return [*ledger.take_stops(), *commands]

    def share(self, now: float) -> list[Command]:
        """Which jobs compute as guests, once it is clear which hold devices: proposed, checked, committed likewise."""
        ledger = self.ledger
        try:
            proposed = self._policy.seat(View(ledger, self._changes, now))
            sharing.check(proposed, ledger, now)
        except Exception:
            ledger.version += 1
            raise
        commands: list[Command] = [ledger.unseat(withdrawal, now) for withdrawal in proposed.withdrawals]
        commands += [ledger.seat(offer, now) for offer in proposed.offers]
        commands += [Tell(note.job_id, note.reason) for note in proposed.notes]
        wake_at = min(self._plan_wakes_at, proposed.wake_at)
        if ledger.begins:
            wake_at = min(wake_at, ledger.begins[0][0])
        if wake_at != self._wake_at:
            self._wake_at = wake_at
            commands.append(WakeAt(wake_at))
        return commands

    def record(self, events: Sequence[Event], now: float) -> None:
        """Write down what happened at this instant; the decision on it is still to be made."""
        if now < self._now:
            raise IllegalEventError(f"it is {self._now:g} s already, and something happens at {now:g} s")
        self._now = now
        if len(events) > 1:
            events = sorted(events, key=lambda event: not isinstance(event, COMPLETIONS))  # stable
        illegal: WeftError | None = None
        for event in events:
            if self.ledger.unordered and not isinstance(event, COMING):
                self.ledger.reorder()
            if type(event) is Woken:
                self._wake_at = math.inf  # the request is fulfilled, even if it was too early
            try:
                RECORDERS[type(event)](self.ledger, event, now)
            except WeftError as error:
                illegal = illegal or error
        if illegal is not None:
            raise illegal

    def repeat(self, decided: Start | Preempt | Seat | Unseat, now: float) -> None:
        """Commit again what was decided at this instant, from the log."""
        self.ledger.reorder()
        begin_due(self.ledger, now)
        match decided:
            case Preempt() if self.ledger.jobs[decided.job_id].is_running:  # else its owner paused it: see `Held`
                self.ledger.evict(Eviction(decided.job_id, decided.reason), now)
            case Start():
                self.ledger.give_again(decided, now)
            case Seat():
                self.ledger.seat_again(decided, now)
            case Unseat() if decided.job_id in self.ledger.seats.seated:  # else the ledger did that itself
                self.ledger.unseat(Withdrawal(decided.job_id, decided.reason), now)
        self.ledger.take_stops()
        self.ledger.changes.clear()
        self.ledger.version += 1

    def change_policy(self, policy: Decider) -> None:
        """From the next decision on. No running job is disturbed by the change itself."""
        self._policy = completed(policy)
        self._wake_at = math.inf
        self.ledger.version += 1

    def waiting_line(self, now: float) -> list[Job]:
        """The waiting jobs in the policy's order."""
        return self._policy.waiting_line(View(self.ledger, (), now))

    def positions(self, now: float) -> Positions:
        """The position of each waiting job; quickly, if the policy keeps them in order."""
        kept = self._policy.positions(View(self.ledger, self.ledger.changes, now))
        return kept or SortedPositions(self.waiting_line(now))

    @property
    def rule(self) -> str:
        """By which rule the policy orders jobs, in a few words."""
        return self._policy.rule

    @property
    def heeds_classes(self) -> bool:
        """Whether quotas and classes count by the policy."""
        return self._policy.heeds_classes

    def is_guaranteed(self, job: Job) -> bool:
        """Whether the job runs as if alone, or is to, by right: within a quota, if the policy heeds quotas."""
        return self._policy.is_guaranteed(job)

    def reason(self, job_id: str, now: float) -> Reason | None:
        """Why a live job does not run; None if it does."""
        job = self.ledger.jobs.get(job_id)
        if job is None:
            raise InputError(f"no live job is called {job_id}", "finished jobs leave the scheduler")
        if job.is_running:
            return None
        if job.state is State.HELD:
            return min(job.holds, key=lambda hold: PRECEDENCE.index(hold.code))
        return self._policy.explain(View(self.ledger, self.ledger.changes, now), job)


def _named_first(grants: Sequence[Grant], ledger: Ledger) -> list[Grant]:
    """Those of jobs that name their devices first: the others have any of what is left."""
    return sorted(grants, key=lambda grant: not ledger.jobs[grant.job_id].spec.device_ids)
