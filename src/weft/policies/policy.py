"""A policy: five stages, and the planner that puts them to work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.policy_base import PolicyBase
from weft.core.reasons import Reason
from weft.core.sharing import Sharing
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.base import Admit, AllTenants, Match, Placer, QueueOrder, Sharer
from weft.policies.migrate.migration import Migration
from weft.policies.migrate.unpack import SeatRetention
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import KeyedOrder
from weft.policies.order.starvation import BypassBound, OverdueJobs
from weft.policies.order.tenant_queues import by_priority
from weft.policies.placement import Compact
from weft.policies.plan.free_devices import fastest_first
from weft.policies.plan.full_scan import FullScan, FullScanPlanner
from weft.policies.plan.incremental import IncrementalPlanner
from weft.policies.plan.queue_position import QueuePositions, explain
from weft.policies.plan.reservation import Reservations
from weft.policies.plan.server_planner import ServerPlanner


class Planner(Protocol):
    may_place_anew: ClassVar[bool]
    """Whether a job that was preempted may go on anywhere, without that being a migration."""

    @property
    def reservations(self) -> Reservations | None:
        """What is kept for gangs, since the last decision."""

    @property
    def staying(self) -> SeatRetention:
        """Which guests go on where they sit."""

    def decide(self, view: View) -> Plan: ...

    def positions(self, view: View) -> QueuePositions | None:
        """Of the jobs that wait, if it keeps them in order."""

    def forget(self) -> None:
        """The plan was changed: what is remembered of it is void."""

    def why(self, view: View, job: Job) -> Reason | None:
        """Why a job waits, if that is for a rule of the planner's own."""


@dataclass(frozen=True)
class Fastest:
    """Every job on the fastest type it allows that has room for it."""

    is_static: ClassVar[bool] = True

    def pairs(self, view: View, builder: FullScan, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
        present = tuple(builder.room.groups)
        for job in line:
            yield job, self.types(job.spec, present)

    def types(self, spec: JobSpec, present: Sequence[str]) -> tuple[str, ...]:
        return fastest_first(spec, present)


class Policy(PolicyBase):
    """Composed of stages; only the order must be named.

    `needs_declared_work` says that it looks at declared steps: what it decides then depends on how long jobs
    will take. All other policies decide the same whatever the future holds. `bypass_limit_s` bounds how long a job
    can wait while others start: see `BypassBound`.
    """

    def __init__(
        self,
        order: QueueOrder,
        *,
        admit: Admit | None = None,
        match: Match | None = None,
        place: Placer | None = None,
        share: Sharer | None = None,
        migration: Migration | None = None,
        bypass_limit_s: float | None = None,
        needs_declared_work: bool = False,
        from_scratch: bool = False,
    ) -> None:
        if isinstance(order, KeyedOrder) and bypass_limit_s is not None:
            order, bypass_limit_s = BypassBound(order, bypass_limit_s), None
        self.order = order
        self.heeds_classes = order.heeds_classes
        self.match = match or Fastest()
        self.place = place or Compact()
        self.share = share
        self.migration = migration
        self.needs_declared_work = needs_declared_work
        self.parameters: Mapping[str, Any] = {}
        self._is_explained_by_heads = isinstance(order, KeyedOrder) and type(order).why_not is KeyedOrder.why_not
        self._bypass: OverdueJobs | None = None
        self.planner: Planner
        if isinstance(order, GandivaOrder):
            self.planner = ServerPlanner(order, self.match, self.place, from_scratch)
        elif isinstance(order, KeyedOrder) and admit is None and not from_scratch and self._can_be_kept(order):
            self.planner = IncrementalPlanner(order, self.match, self.place)
        else:
            self._bypass = None if bypass_limit_s is None else OverdueJobs(bypass_limit_s)
            everyone = admit or AllTenants()
            self.planner = FullScanPlanner(everyone, order, self.match, self.place, self._bypass)
        self._decide = self.planner.decide if share is None else self._decide_to_share
        self.shares = self.learns_from_measures = share is not None

    def decide(self, view: View) -> Plan:
        return self._decide(view)

    def seat(self, view: View) -> Sharing:
        if self.share is None:
            return super().seat(view)
        sharing = self.share.seat(view)
        if view.has_exceptions and sharing.offers:
            leaving = {each.job_id for each in sharing.withdrawals}
            sharing = replace(sharing, offers=view.within_bounds(sharing.offers, leaving))
        gains = self.migration.gains(view) if self.migration else ()
        notes = self.order.notes()
        return replace(sharing, notes=[*sharing.notes, *gains, *notes]) if gains or notes else sharing

    def _decide_to_share(self, view: View) -> Plan:
        """As the planner decides, with moves that pay; jobs that are granted devices are put into lanes for guests to
        join."""
        assert self.share is not None
        planned = plan = self._planned(view)
        if self.migration is not None:
            if self.planner.may_place_anew:
                plan = self.migration.with_moves_instead(view, planned, self._place_for)
            plan = self.migration.with_moves(view, plan, self.order, self.match, self.place)
        if plan.grants is not planned.grants:  # something is moved
            self.planner.forget()
        if not plan.grants:
            return plan
        turns = [self.share.turns_of(view.jobs[grant.job_id], view.now) for grant in plan.grants]
        grants = [
            replace(grant, lane=each.lane, base=each.base, weight=each.weight) if each.lane else grant
            for grant, each in zip(plan.grants, turns, strict=True)
        ]
        return replace(plan, grants=grants)

    def _planned(self, view: View) -> Plan:
        """As the planner decides, but for guests that are better off where they sit."""
        staying, migration = self.planner.staying, self.migration
        if migration is not None:
            migration.learn(view)
        if staying.begin(view, migration.cost_s if migration else None):
            self.planner.forget()
        plan = staying.heed(view, self.planner.decide(view))
        if staying.wake_at < plan.wake_at:
            plan = replace(plan, wake_at=staying.wake_at)
        return migration.with_guests_moved(view, plan) if migration else plan

    def _place_for(self, job: Job) -> Placer:
        """Of this decision, seeing what is kept for others."""
        kept = self.planner.reservations
        return self.place if kept is None else kept.place_for(job)

    def _can_be_kept(self, order: KeyedOrder) -> bool:
        """Whether what the incremental planner relies on holds for these stages."""
        return self.match.is_static and (not order.may_block or order.blockers_come_first)

    @property
    def rule(self) -> str:
        return self.order.rule

    def is_guaranteed(self, job: Job) -> bool:
        return self.order.is_guaranteed(job)

    def waiting_line(self, view: View) -> list[Job]:
        """The waiting jobs, first the one that goes first."""
        waiting = [job for job in view.jobs.values() if job.is_waiting]
        line = sorted(waiting, key=lambda job: self.order.rank(view, job))
        return by_priority(line, lambda job: self.order.rank(view, job)) if view.has_exceptions else line

    def positions(self, view: View) -> QueuePositions | None:
        """The same for few of them, without looking at all; None if only `waiting_line` knows."""
        return self.planner.positions(view)

    def recall(self, services: Iterable[float]) -> None:
        """Learn from the device-seconds that jobs before its time needed, where the order learns."""
        self.order.recall(services)

    def explain(self, view: View, job: Job) -> Reason:
        why = self.planner.staying.why(view, job) or self.planner.why(view, job)
        if why is not None:
            return why
        kept = self.planner.positions(view) if self._is_explained_by_heads else None
        heads = None if kept is None else kept.heads()
        return explain(view, job, self.order, self.match, self.place, self.planner.reservations, self._bypass, heads)
