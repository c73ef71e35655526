"""A plan in the making: one job after the other gets devices that are free, or those of running jobs behind it.

Both planners derive from it. What a job gets, and which jobs lose their devices for it, is decided here; a planner
says which jobs are considered, in which order, and which running jobs stand behind each of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic

from weft.core.job import Job
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.policies.base import Placer, QueueOrder
from weft.policies.migrate.unpack import SeatRetention
from weft.policies.plan.free_devices import FreeDevices, home_of
from weft.policies.plan.preemption import P, make_way, make_way_home, make_way_within
from weft.policies.plan.reservation import Reservations

FITS, FITS_AFTER_PREEMPTING, PREEMPTED_FOR = Code.FITS, Code.FITS_AFTER_PREEMPTING, Code.PREEMPTED_FOR


class PlanBuilder(ABC, Generic[P]):
    """`P` is how a planner represents a running job that may be evicted."""

    __slots__ = ("_evicted", "_grants", "_order", "_place", "_reservations", "_staying", "room")

    def __init__(
        self,
        room: FreeDevices,
        order: QueueOrder,
        place: Placer,
        staying: SeatRetention,
        reservations: Reservations | None = None,
    ) -> None:
        self.room = room
        self._place = place
        self._order = order
        self._staying = staying
        self._reservations = reservations
        self._grants: list[Grant] = []
        self._evicted: dict[str, tuple[P, Reason]] = {}

    def start(self, job: Job, kinds: Sequence[str]) -> bool:
        """Give the job devices, or settle that it goes on as a guest; false if there is no place for it."""
        return (
            (bool(self._evicted) and self._return_home(job))
            or self._start_on_free(job, kinds)
            or (self._order.preempts and self._start_evicting(job, kinds))
        )

    def reserve(self, job: Job, kinds: Sequence[str]) -> None:
        """The job has found no place: keep devices for it if it has a right to that."""
        if self._reservations is not None and not job.spec.device_ids:
            behind, ahead = partial(self._behind, job), partial(self._ahead, job)
            self._reservations.reserve(job, kinds, self.room, behind, ahead)

    def plan(self, wake_at: float) -> Plan:
        evictions = [Eviction(job_id, reason) for job_id, (_, reason) in self._evicted.items()]
        return Plan(self._grants, evictions, wake_at)

    # ---- what each planner does in its own way

    @abstractmethod
    def _behind(self, job: Job, kind: str) -> Sequence[P]:
        """The running jobs of a device type that the job may evict, in order: the last one is the first to leave."""

    @abstractmethod
    def _enough_behind(self, job: Job, kind: str) -> Sequence[P]:
        """The same; empty where they could not leave devices enough, as far as counts tell."""

    @abstractmethod
    def _ahead(self, job: Job, kind: str) -> Sequence[P]:
        """All other running jobs of a device type, as the plan has it by now."""

    @abstractmethod
    def _starting_behind(self, job: Job) -> Sequence[P]:
        """The jobs that start up, and may be evicted by this one if it is guaranteed."""

    @abstractmethod
    def _granted(self, job: Job, placement: Placement) -> None:
        """Take the devices that the plan grants to a job."""

    @abstractmethod
    def _leave(self, one: P) -> None:
        """Free the devices of a job that the plan evicts."""

    @abstractmethod
    def _stay(self, one: P) -> None:
        """The devices of an evicted job were not needed: it keeps them, and is not evicted."""

    def _has_cleared(self, job: Job, placement: Placement) -> None:
        """Jobs have left for this one, and it has been granted its devices."""

    # ---- one job

    def _return_home(self, job: Job) -> bool:
        if job.id not in self._evicted or not self.room.holds(self._evicted[job.id][0].placement):
            return False
        if self.room.bounds is not None and not self.room.bounds.has_kept(job):
            return False
        one, _ = self._evicted.pop(job.id)
        self._stay(one)
        return True

    def _start_on_free(self, job: Job, kinds: Sequence[str]) -> bool:
        room, home, place = self.room, self._home_of(job, kinds), self._place_for(job)
        if home is not None and room.holds(home):
            self._give_free(job, home)
            return True
        free = room.free_for(job.spec)
        for kind in kinds:
            if room.total.get(kind, 0) >= job.gang_size:
                placement = place.choose(job.spec, room.groups[kind], free)
                if placement is not None:
                    self._give_free(job, placement)
                    return True
        return False

    def _start_evicting(self, job: Job, kinds: Sequence[str]) -> bool:
        """Of the jobs that start up as few as possible leave, and only where all others are not enough."""
        if self._make_way(job, kinds, partial(self._enough_behind, job)):
            return True
        if not self._has_startups or not self._order.is_guaranteed(job):
            return False
        starting = self._starting_behind(job)

        def all_behind(kind: str) -> list[P]:
            return [*(one for one in starting if self.room.kind_of(one.placement) == kind), *self._behind(job, kind)]

        return self._make_way(job, kinds, all_behind)

    @property
    @abstractmethod
    def _has_startups(self) -> bool:
        """Whether any running job starts up."""

    def _make_way(self, job: Job, kinds: Sequence[str], behind_of: Callable[[str], Sequence[P]]) -> bool:
        room, home, place = self.room, self._home_of(job, kinds), self._place_for(job)
        if home is not None:
            leaving = make_way_home(home, room, behind_of(room.kind_of(home)))
            if leaving is not None:
                self._take_from(job, home, leaving)
                return True
        for kind in kinds:
            behind = behind_of(kind)
            if not behind:
                continue
            if job.spec.is_bound:
                way = make_way_within(place, job.spec, room.groups[kind], room, behind)
            else:
                way = make_way(place, job.spec, room.groups[kind], room.free, behind)
            if way is not None:
                self._take_from(job, *way)
                return True
        return False

    def _home_of(self, job: Job, kinds: Sequence[str]) -> Placement | None:
        if not (self._order.returns_home or job.seating) or job.spec.is_bound:
            return None
        home = home_of(job, self.room, kinds, self._place)
        return None if home is None or self._is_kept(job, home) else home

    def _is_kept(self, job: Job, placement: Placement) -> bool:
        """Whether those devices are reserved for another job."""
        return self._reservations is not None and not self._reservations.allows(job, placement)

    def _place_for(self, job: Job) -> Placer:
        return self._place if self._reservations is None else self._reservations.place_for(job)

    def _give_free(self, job: Job, placement: Placement) -> None:
        """A guest may rather stay on its seat: then it is settled, and the next job may have the devices."""
        if job.seating is not None and not job.spec.is_bound and self._staying.declines(job, placement):
            home = self._staying.free_home(job, self.room)
            if home is None or self._is_kept(job, home):
                return
            placement = home
        free = self.room.total[self.room.kind_of(placement)]
        self._grant(job, placement, Reason(FITS, (job.gang_size, free)))

    def _take_from(self, job: Job, placement: Placement, leaving: Sequence[P]) -> None:
        if job.seating is not None and not job.spec.is_bound and self._staying.keeps(job):
            behind = self._behind(job, self.room.kind_of(job.seating.allocation))
            home = self._staying.at_home(job, self.room, behind)
            if home is None or self._is_kept(job, home[0]):
                return  # it goes on as a guest
            placement, leaving = home
        for one in leaving:
            self._leave(one)
            self._evicted[one.job.id] = (one, Reason(PREEMPTED_FOR, (job.id,)))
        self._grant(job, placement, Reason(FITS_AFTER_PREEMPTING, (job.gang_size, len(leaving))))
        self._has_cleared(job, placement)

    def _grant(self, job: Job, placement: Placement, reason: Reason) -> None:
        self._grants.append(Grant(job.id, placement, reason))
        self._staying.granted(job, placement)
        self._granted(job, placement)
        if self._reservations is not None:
            self._reservations.taken(job, placement)
