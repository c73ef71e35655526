"""A plan in the making, from scratch: what is free, who runs and could still be evicted, who got what."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from weft.core.job import Job
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Match, Placer
from weft.policies.migrate.unpack import Staying
from weft.policies.plan.free_devices import Room, home_of, make_way, make_way_home, make_way_within
from weft.policies.plan.reservation import Reservations


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job and where it runs."""

    job: Job
    placement: Placement


class Draft:
    """Jobs are considered in order. A running job that was not considered yet may be evicted by one that is."""

    def __init__(
        self,
        view: View,
        match: Match,
        place: Placer,
        eviction_line: Sequence[Job],
        returns_home: bool = False,
        reservations: Reservations | None = None,
        staying: Staying | None = None,
        is_guaranteed: Callable[[Job], bool] = lambda job: False,
    ) -> None:
        self.view = view
        self.room = Room(view)
        self.devices_of = dict.fromkeys(view.tenants, 0)
        """What each tenant has of this plan so far."""
        self.running = set(view.running)
        self.started: dict[str, str] = {}
        """The jobs this plan starts, with the device type of each."""
        self._jobs_in_line = view.jobs_waiting + len(self.running)
        self._match = match
        self._place = place
        self._returns_home = returns_home
        self._reservations = reservations
        self._staying = staying or Staying()
        self._is_guaranteed = is_guaranteed
        self._evictable = {
            job.id: RunningJob(job, placement_of(job)) for job in eviction_line if not is_protected(job, view.now)
        }
        self._starting = {
            job.id: RunningJob(job, placement_of(job)) for job in eviction_line if only_starts_up(job, view.now)
        }
        """Who is evicted only for guaranteed jobs."""
        self._evictable_total = dict.fromkeys(self.room.total, 0)
        for standing in (*self._evictable.values(), *self._starting.values()):
            self._evictable_total[self.room.kind_of(standing.placement)] += standing.job.gang_size
        self._evicted: dict[str, tuple[RunningJob, Reason]] = {}
        self._grants: list[Grant] = []

    @property
    def is_full(self) -> bool:
        """Nothing is free and nobody who could be evicted is left."""
        return not any(self.room.total.values()) and not any(self._evictable_total.values())

    @property
    def jobs_waiting(self) -> int:
        return self._jobs_in_line - len(self.running)

    def consider(self, job: Job, kinds: Sequence[str]) -> bool:
        """Let the job keep its devices or give it some; false if there is no place for it."""
        if job.id in self.running:
            self._keep(job)
        elif not (self._return_home(job) or self._start_on_free(job, kinds) or self._start_evicting(job, kinds)):
            if self._reservations is not None and not job.spec.device_ids:
                self._reservations.reserve(job, kinds, self.room, self._behind, self._ahead)
            return False
        self.devices_of[job.tenant] += job.gang_size
        return True

    def could_hold(self, job: Job) -> bool:
        """Whether it fits if nobody else holds anything: else there is no point in waiting for it."""
        return self.room.could_hold(self._place, job.spec, self._match.types(job.spec, tuple(self.room.groups)))

    def plan(self, wake_at: float) -> Plan:
        evictions = [Eviction(standing.job.id, reason) for standing, reason in self._evicted.values()]
        return Plan(self._grants, evictions, wake_at)

    def _keep(self, job: Job) -> None:
        standing = self._evictable.pop(job.id, None) or self._starting.pop(job.id, None)
        if standing is not None:
            self._evictable_total[self.room.kind_of(standing.placement)] -= job.gang_size

    def _return_home(self, job: Job) -> bool:
        """An evicted job whose devices were not needed after all has not been evicted."""
        if job.id not in self._evicted or not self.room.holds(self._evicted[job.id][0].placement):
            return False
        bounds = self.room.bounds
        if bounds is not None and not bounds.has_kept(job):
            return False
        standing, _ = self._evicted.pop(job.id)
        self.room.take(standing.placement)
        if bounds is not None:
            bounds.keep(job)
        self.running.add(job.id)
        return True

    def _start_on_free(self, job: Job, kinds: Sequence[str]) -> bool:
        home, place = self._home_of(job, kinds), self._place_for(job)
        if home is not None and self.room.holds(home):
            self._give_free(job, home)
            return True
        for kind in kinds:
            if self.room.total.get(kind, 0) >= job.gang_size:
                placement = place.choose(job.spec, self.room.groups[kind], self.room.free_for(job.spec))
                if placement is not None:
                    self._give_free(job, placement)
                    return True
        return False

    def _start_evicting(self, job: Job, kinds: Sequence[str]) -> bool:
        if self._make_way(job, kinds, self._behind):
            return True
        return bool(self._starting) and self._is_guaranteed(job) and self._make_way(job, kinds, self._all_behind)

    def _make_way(self, job: Job, kinds: Sequence[str], behind: Callable[[str], list[RunningJob]]) -> bool:
        home, place = self._home_of(job, kinds), self._place_for(job)
        if home is not None:
            kind = self.room.kind_of(home)
            leaving = make_way_home(home, self.room, behind(kind))
            if leaving is not None:
                self._take_from(job, home, leaving)
                return True
        for kind in kinds:
            free = self.room.total.get(kind, 0)
            if self._evictable_total.get(kind, 0) == 0 or free + self._evictable_total[kind] < job.gang_size:
                continue
            if job.spec.is_bound:
                way = make_way_within(place, job.spec, self.room.groups[kind], self.room, behind(kind))
            else:
                way = make_way(place, job.spec, self.room.groups[kind], self.room.free, behind(kind))
            if way is not None:
                self._take_from(job, *way)
                return True
        return False

    def _home_of(self, job: Job, kinds: Sequence[str]) -> Placement | None:
        wants_home = (self._returns_home or job.seating) and not job.spec.is_bound
        home = home_of(job, self.room, kinds, self._place) if wants_home else None
        return None if home is None or self._is_kept(job, home) else home

    def _is_kept(self, job: Job, placement: Placement) -> bool:
        """Whether those devices are reserved for somebody else."""
        return self._reservations is not None and not self._reservations.allows(job, placement)

    def _place_for(self, job: Job) -> Placer:
        return self._place if self._reservations is None else self._reservations.place_for(job)

    def _ahead(self, kind: str) -> list[RunningJob]:
        """Who runs as far as this plan goes, and could not be evicted any more."""
        here = [
            RunningJob(job, placement_of(job))
            for job in self.view.running.values()
            if job.id in self.running and job.id not in self._evictable and job.id not in self.started
        ]
        here += [RunningJob(self.view.jobs[grant.job_id], grant.placement) for grant in self._grants]
        return [one for one in here if self.room.kind_of(one.placement) == kind]

    def _behind(self, kind: str) -> list[RunningJob]:
        return [one for one in self._evictable.values() if self.room.kind_of(one.placement) == kind]

    def _all_behind(self, kind: str) -> list[RunningJob]:
        """With those that start up, who leave last."""
        starting = [one for one in self._starting.values() if self.room.kind_of(one.placement) == kind]
        return [*starting, *self._behind(kind)]

    def _give_free(self, job: Job, placement: Placement) -> None:
        """Unless it is a guest that goes on where it sits: then it is seen to, and the next in line may have them."""
        if job.seating is not None and not job.spec.is_bound and self._staying.declines(job, placement):
            home = self._staying.free_home(job, self.room)
            if home is None or self._is_kept(job, home):
                return
            placement = home
        free = self.room.total[self.room.kind_of(placement)]
        self._grant(job, placement, Reason(Code.FITS, (job.gang_size, free)))

    def _take_from(self, job: Job, placement: Placement, leaving: Sequence[RunningJob]) -> None:
        if job.seating is not None and not job.spec.is_bound and self._staying.keeps(job):
            home = self._staying.at_home(job, self.room, self._evictable.values())
            if home is None or self._is_kept(job, home[0]):
                return  # it goes on as a guest
            placement, leaving = home
        for standing in leaving:
            self._evict(standing, job)
        self._grant(job, placement, Reason(Code.FITS_AFTER_PREEMPTING, (job.gang_size, len(leaving))))

    def _evict(self, standing: RunningJob, winner: Job) -> None:
        self._keep(standing.job)
        self.room.give(standing.placement)
        if self.room.bounds is not None:
            self.room.bounds.give(standing.job)
        self.running.remove(standing.job.id)
        self._evicted[standing.job.id] = (standing, Reason(Code.PREEMPTED_FOR, (winner.id,)))

    def _grant(self, job: Job, placement: Placement, reason: Reason) -> None:
        self.room.take(placement)
        if self.room.bounds is not None:
            self.room.bounds.take(job, placement)
        self.running.add(job.id)
        self.started[job.id] = self.room.kind_of(placement)
        self._grants.append(Grant(job.id, placement, reason))
        self._staying.granted(job, placement)
        if self._reservations is not None:
            self._reservations.taken(job, placement)


def placement_of(job: Job) -> Placement:
    return tuple([(node, mask.bit_count()) for node, mask in job.allocation])


def protection_end(job: Job, started_s: float) -> float:
    """Until when its minimum run time keeps it from being preempted."""
    return started_s + job.spec.min_run_s


def protected_until(job: Job) -> float:
    """Until when a running job is not preempted: by its minimum run time, or while it starts up."""
    return max(protection_end(job, job.since_s), job.startup_kept_until_s)


def is_protected(job: Job, now: float) -> bool:
    return _keeps_startup(job, now) or (job.spec.min_run_s > 0 and now + EPSILON_S < protection_end(job, job.since_s))


def only_starts_up(job: Job, now: float) -> bool:
    """Whether it is protected because it starts up, and for nothing else."""
    return _keeps_startup(job, now) and now + EPSILON_S >= protection_end(job, job.since_s)


def _keeps_startup(job: Job, now: float) -> bool:
    return now + EPSILON_S < job.served_from_s and now + EPSILON_S < job.startup_kept_until_s


def protection_ends_at(view: View, running: Iterable[str], started: Container[str]) -> float:
    """When the first of these running jobs, some of them started just now, may be preempted and could not before."""
    now, ends = view.now, math.inf
    for job in map(view.jobs.__getitem__, running):
        if job.served_from_s <= now and not job.spec.min_run_s:
            continue  # nothing protects most of them
        end = protection_end(job, now) if job.id in started else protected_until(job)
        if now + EPSILON_S < end < ends:
            ends = end
    return ends
