"""The planner that goes through the whole line at every decision: plain, and what the fast one is held against."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Sequence
from typing import ClassVar

from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.view import View
from weft.policies.base import Admit, KeyedOrder, Match, Order, Placer
from weft.policies.migrate.unpack import Staying
from weft.policies.order.starvation import Bypass
from weft.policies.order.tenant_queues import PriorityTurns, by_priority
from weft.policies.plan.draft import Draft, protection_ends_at
from weft.policies.plan.reservation import Reservations

Pairs = Iterator[tuple[Job, Sequence[str]]]


class ScratchPlanner:
    """Admit, order, match, place."""

    may_place_anew: ClassVar[bool] = True

    def __init__(self, admit: Admit, order: Order, match: Match, place: Placer, bypass: Bypass | None = None) -> None:
        self._admit = admit
        self._order = order
        self._match = match
        self._place = place
        self._bypass = bypass
        self.reservations = Reservations(order, place) if isinstance(order, KeyedOrder) else None
        self.staying = Staying()

    def decide(self, view: View) -> Plan:
        order = self._order
        order.prepare(view)
        if not view.jobs_waiting or not (order.preempts or any(view.free_counts)):
            return Plan(wake_at=self._wake_at(view, view.running, (), view.jobs_waiting))  # nothing can move
        returns_home = getattr(order, "returns_home", False)
        reserved = self.reservations if getattr(order, "may_reserve", False) else None
        if reserved is not None:
            reserved.begin(view.version)
        behind = order.eviction_line(view) if order.preempts else []
        if view.has_exceptions:
            behind = by_priority(behind, lambda job: order.rank(view, job))
        guaranteed = {"is_guaranteed": order.is_guaranteed} if isinstance(order, KeyedOrder) else {}
        draft = Draft(view, self._match, self._place, behind, returns_home, reserved, self.staying, **guaranteed)
        if self._serve_overdue(view, draft):
            for admitted in self._admit.rounds(view):
                self._fill(view, draft, admitted)
                if draft.is_full:
                    break
        return draft.plan(self._wake_at(view, draft.running, draft.started, draft.jobs_waiting))

    def positions(self, view: View) -> None:
        """Nothing is kept."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def why(self, view: View, job: Job) -> None:
        """Whatever there is to say, the stages say."""

    def _serve_overdue(self, view: View, draft: Draft) -> bool:
        """Those that waited too long go first; false if one of them is to be waited for, so that all others wait."""
        overdue: list[Job] = self._bypass.overdue(view) if self._bypass else []
        present = tuple(draft.room.groups)
        return all(
            draft.consider(job, self._match.types(job.spec, present)) or not draft.could_hold(job) for job in overdue
        )

    def _fill(self, view: View, draft: Draft, admitted: frozenset[str] | None) -> None:
        line = self._order.line(view, draft, admitted)
        pairs = self._match.pairs(view, draft, line)
        if view.has_exceptions and not getattr(self._order, "heeds_priorities", False):
            pairs = self._by_priority(
                view, draft, line if isinstance(line, list) else self._in_line(view, draft), pairs
            )
        for job, kinds in pairs:
            if not draft.consider(job, kinds) and self._order.blocks(job, view.now) and draft.could_hold(job):
                return
            if draft.is_full:
                return

    def _in_line(self, view: View, draft: Draft) -> list[Job]:
        """Of a line that is made while it is read: who may be in it."""
        waits_or_stands = (
            job for job in view.jobs.values() if job.is_waiting or (self._order.preempts and job.is_running)
        )
        return [job for job in waits_or_stands if job.id not in draft.started]

    def _by_priority(self, view: View, draft: Draft, in_line: Sequence[Job], pairs: Pairs) -> Pairs:
        """With the turns of each tenant given to its jobs by their priorities, on types that they may use."""
        present = tuple(draft.room.groups)
        turns = PriorityTurns(in_line, lambda job: self._order.rank(view, job))
        for job, kinds in pairs:
            one = turns.of(job)
            if one is not job:
                usable = self._match.types(one.spec, present)
                matched = [] if self._match.is_static else [kind for kind in kinds if kind in usable]
                kinds = matched or usable
            yield one, kinds

    def _wake_at(self, view: View, running: Collection[str], started: Container[str], jobs_waiting: int) -> float:
        return min(
            self._order.wake_at(view, running, jobs_waiting),
            self._bypass.wake_at(view, running) if self._bypass else math.inf,
            protection_ends_at(view, running, started) if self._order.preempts else math.inf,
        )
