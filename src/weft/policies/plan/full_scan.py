"""The planner that goes through the whole line at every decision: plain, and what the fast one is held against."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Sequence
from typing import ClassVar

from weft.core.job import Job
from weft.core.plan import Placement, Plan
from weft.core.view import View
from weft.policies.base import Admit, Match, Placer, QueueOrder
from weft.policies.migrate.unpack import SeatRetention
from weft.policies.order.starvation import OverdueJobs
from weft.policies.order.tenant_queues import PriorityTurns, by_priority
from weft.policies.plan.builder import PlanBuilder
from weft.policies.plan.free_devices import FreeDevices
from weft.policies.plan.preemption import RunningJob, is_protected, only_starts_up, placement_of, protection_ends_at
from weft.policies.plan.reservation import Reservations

Pairs = Iterator[tuple[Job, Sequence[str]]]


class FullScanPlanner:
    """Admit, order, match, place."""

    may_place_anew: ClassVar[bool] = True

    def __init__(
        self, admit: Admit, order: QueueOrder, match: Match, place: Placer, bypass: OverdueJobs | None = None
    ) -> None:
        self._admit = admit
        self._order = order
        self._match = match
        self._place = place
        self._bypass = bypass
        self.reservations = Reservations(order, place)
        self.staying = SeatRetention()

    def decide(self, view: View) -> Plan:
        order = self._order
        order.prepare(view)
        if not view.jobs_waiting or not (order.preempts or any(view.free_counts)):
            return Plan(wake_at=self._wake_at(view, view.running, (), view.jobs_waiting))  # nothing can move
        reserved = self.reservations if order.may_reserve else None
        if reserved is not None:
            reserved.begin(view.version)
        behind = order.eviction_line(view) if order.preempts else []
        if view.has_exceptions:
            behind = by_priority(behind, lambda job: order.rank(view, job))
        builder = FullScan(view, order, self._match, self._place, behind, self.staying, reserved)
        if self._serve_overdue(view, builder):
            for admitted in self._admit.rounds(view):
                self._fill(view, builder, admitted)
                if builder.is_full:
                    break
        return builder.plan(self._wake_at(view, builder.running, builder.started, builder.jobs_waiting))

    def positions(self, view: View) -> None:
        """Nothing is kept."""

    def forget(self) -> None:
        """There is nothing to forget."""

    def why(self, view: View, job: Job) -> None:
        """Whatever there is to say, the stages say."""

    def _serve_overdue(self, view: View, builder: FullScan) -> bool:
        """Those that waited too long go first; false if one of them is to be waited for, so that all others wait."""
        overdue: list[Job] = self._bypass.overdue(view) if self._bypass else []
        present = tuple(builder.room.groups)
        return all(
            builder.consider(job, self._match.types(job.spec, present)) or not builder.could_hold(job)
            for job in overdue
        )

    def _fill(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> None:
        line = self._order.line(view, builder, admitted)
        pairs = self._match.pairs(view, builder, line)
        if view.has_exceptions and not self._order.heeds_priorities:
            pairs = self._by_priority(
                view, builder, line if isinstance(line, list) else self._in_line(view, builder), pairs
            )
        for job, kinds in pairs:
            if not builder.consider(job, kinds) and self._order.blocks(job, view.now) and builder.could_hold(job):
                return
            if builder.is_full:
                return

    def _in_line(self, view: View, builder: FullScan) -> list[Job]:
        """The jobs that may be in a line which is made while it is read."""
        waits_or_stands = (
            job for job in view.jobs.values() if job.is_waiting or (self._order.preempts and job.is_running)
        )
        return [job for job in waits_or_stands if job.id not in builder.started]

    def _by_priority(self, view: View, builder: FullScan, in_line: Sequence[Job], pairs: Pairs) -> Pairs:
        """With the turns of each tenant given to its jobs by their priorities, on types that they may use."""
        present = tuple(builder.room.groups)
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


# ---- The plan as it grows: which running jobs were not considered yet, and so could still be evicted.


class FullScan(PlanBuilder[RunningJob]):
    """Jobs are considered in order. A running job that was not considered yet may be evicted by one that is."""

    def __init__(
        self,
        view: View,
        order: QueueOrder,
        match: Match,
        place: Placer,
        eviction_line: Sequence[Job],
        staying: SeatRetention,
        reservations: Reservations | None = None,
    ) -> None:
        super().__init__(FreeDevices(view), order, place, staying, reservations)
        self.view = view
        self.devices_of = dict.fromkeys(view.tenants, 0)
        """By tenant, the devices that this plan gives it so far."""
        self.running = set(view.running)
        self.started: dict[str, str] = {}
        """The jobs this plan starts, with the device type of each."""
        self._jobs_in_line = view.jobs_waiting + len(self.running)
        self._match = match
        self._evictable = {
            job.id: RunningJob(job, placement_of(job)) for job in eviction_line if not is_protected(job, view.now)
        }
        self._starting = {
            job.id: RunningJob(job, placement_of(job)) for job in eviction_line if only_starts_up(job, view.now)
        }
        """Evicted only for guaranteed jobs."""
        self._evictable_total = dict.fromkeys(self.room.total, 0)
        for one in (*self._evictable.values(), *self._starting.values()):
            self._evictable_total[self.room.kind_of(one.placement)] += one.job.gang_size

    @property
    def is_full(self) -> bool:
        """Nothing is free, and no job is left that could be evicted."""
        return not any(self.room.total.values()) and not any(self._evictable_total.values())

    @property
    def jobs_waiting(self) -> int:
        return self._jobs_in_line - len(self.running)

    def consider(self, job: Job, kinds: Sequence[str]) -> bool:
        """Let the job keep its devices or give it some; false if there is no place for it."""
        if job.id in self.running:
            self._settle(job)
        elif not self.start(job, kinds):
            self.reserve(job, kinds)
            return False
        self.devices_of[job.tenant] += job.gang_size
        return True

    def could_hold(self, job: Job) -> bool:
        """Whether the job fits if no other holds anything: else there is no point in waiting for it."""
        return self.room.could_hold(self._place, job.spec, self._match.types(job.spec, tuple(self.room.groups)))

    def _settle(self, job: Job) -> None:
        """No job that comes later may evict it."""
        one = self._evictable.pop(job.id, None) or self._starting.pop(job.id, None)
        if one is not None:
            self._evictable_total[self.room.kind_of(one.placement)] -= job.gang_size

    @property
    def _has_startups(self) -> bool:
        return bool(self._starting)

    def _behind(self, job: Job, kind: str) -> list[RunningJob]:
        return [one for one in self._evictable.values() if self.room.kind_of(one.placement) == kind]

    def _enough_behind(self, job: Job, kind: str) -> list[RunningJob]:
        total = self._evictable_total.get(kind, 0)
        return self._behind(job, kind) if total and self.room.total.get(kind, 0) + total >= job.gang_size else []

    def _ahead(self, job: Job, kind: str) -> list[RunningJob]:
        here = [
            RunningJob(one, placement_of(one))
            for one in self.view.running.values()
            if one.id in self.running and one.id not in self._evictable and one.id not in self.started
        ]
        here += [RunningJob(self.view.jobs[grant.job_id], grant.placement) for grant in self._grants]
        return [one for one in here if self.room.kind_of(one.placement) == kind]

    def _starting_behind(self, job: Job) -> Sequence[RunningJob]:
        return list(self._starting.values())

    def _granted(self, job: Job, placement: Placement) -> None:
        self.room.take(placement)
        if self.room.bounds is not None:
            self.room.bounds.take(job, placement)
        self.running.add(job.id)
        self.started[job.id] = self.room.kind_of(placement)

    def _leave(self, one: RunningJob) -> None:
        self._settle(one.job)
        self.room.give(one.placement)
        if self.room.bounds is not None:
            self.room.bounds.give(one.job)
        self.running.remove(one.job.id)

    def _stay(self, one: RunningJob) -> None:
        self.room.take(one.placement)
        if self.room.bounds is not None:
            self.room.bounds.keep(one.job)
        self.running.add(one.job.id)
