"""Which running jobs may be preempted by now, and how few of them must leave so that a job has a place."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.values import EPSILON_S, JobSpec
from weft.core.view import View
from weft.policies.base import Placer
from weft.policies.plan.free_devices import FreeDevices, NodeGroup


def placement_of(job: Job) -> Placement:
    return tuple([(node, mask.bit_count()) for node, mask in job.allocation])


class Placed(Protocol):
    """Whatever stands somewhere."""

    @property
    def job(self) -> Job: ...

    @property
    def placement(self) -> Placement: ...


P = TypeVar("P", bound=Placed)


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job and where it runs."""

    job: Job
    placement: Placement


def make_way(
    place: Placer, spec: JobSpec, group: NodeGroup, free: Sequence[int], behind: Sequence[P]
) -> tuple[Placement, list[P]] | None:
    """A place for the job if some of those behind it leave: as few as possible, from the end of the line.

    `behind` is in order, so its last is the first to go; all of them together leave devices enough, as far as
    counts tell. Returns the placement and the jobs that leave.
    """
    if len(group) == 1:
        way = _one_node_cleared(place, spec, group, free, behind)
        if way is not None:
            return way
    fewest = _fewest_leaving(place, spec, group, free, behind)
    if fewest is None:
        return None
    placement, count = fewest
    lacking = {node: count - free[node] for node, count in placement if count > free[node]}
    leaving = []
    for one in reversed(behind[len(behind) - count :]):
        if any(lacking.get(node, 0) > 0 for node, _ in one.placement):
            leaving.append(one)
            for node, devices in one.placement:
                lacking[node] = lacking.get(node, 0) - devices
    return placement, leaving


def _one_node_cleared(
    place: Placer, spec: JobSpec, group: NodeGroup, free: Sequence[int], behind: Sequence[P]
) -> tuple[Placement, list[P]] | None:
    """What bisection would find on a single node, without it; None if the placement wants more than devices enough."""
    node = group.nodes[0]
    freed = list(free)
    leaving = []
    for one in reversed(behind):
        if freed[node] >= spec.gang_size:
            break
        leaving.append(one)
        freed[node] += one.job.gang_size
    placement = place.choose(spec, group, freed)
    return None if placement is None else (placement, leaving)


def _fewest_leaving(
    place: Placer, spec: JobSpec, group: NodeGroup, free: Sequence[int], behind: Sequence[P]
) -> tuple[Placement, int] | None:
    """Where it fits if the last so many leave. Bisection works because more free devices never make it fit worse."""

    def without(last: int) -> Placement | None:
        freed = list(free)
        for one in behind[len(behind) - last :]:
            for node, count in one.placement:
                freed[node] += count
        return place.choose(spec, group, freed)

    low, high = 1, len(behind)
    placement = without(high)
    while placement is not None and low < high:
        middle = (low + high) // 2
        closer = without(middle)
        if closer is None:
            low = middle + 1
        else:
            high, placement = middle, closer
    return None if placement is None else (placement, high)


def make_way_within(
    place: Placer, spec: JobSpec, group: NodeGroup, room: FreeDevices, behind: Sequence[P]
) -> tuple[Placement, list[P]] | None:
    """The same for a job that is bound: only jobs leave whose devices or CPU cores it needs."""
    bounds = room.bounds
    assert bounds is not None

    def without(leaving: Sequence[P]) -> Placement | None:
        freed = list(room.free)
        for one in leaving:
            for node, count in one.placement:
                freed[node] += count
        return place.choose(spec, group, bounds.without([one.job for one in leaving]).limited(spec, freed))

    low, high = 1, len(behind)
    if not behind or without(behind) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if without(behind[len(behind) - middle :]) is not None else (middle + 1, high)
    leaving = list(behind[len(behind) - high :])
    for one in list(leaving):
        others = [other for other in leaving if other is not one]
        if without(others) is not None:
            leaving = others
    placement = without(leaving)
    return None if placement is None else (placement, leaving)


def make_way_home(home: Placement, room: FreeDevices, behind: Sequence[P]) -> list[P] | None:
    """Which jobs behind it must leave so that it can go home: from the end of the line; None if that is not enough."""
    lacking = {node: count - room.free[node] for node, count in home if count > room.free[node]}
    leaving = []
    for one in reversed(behind):
        if not lacking:
            break
        if any(node in lacking for node, _ in one.placement):
            leaving.append(one)
            for node, count in one.placement:
                if node in lacking:
                    lacking[node] -= count
                    if lacking[node] <= 0:
                        del lacking[node]
    return None if lacking else leaving


# ---- Protection: by a minimum run time, and while a job starts up.


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
