"""Devices kept for a gang that does not fit yet: as they become free, until there are enough of them.

A gang that may reserve and finds no place is promised one: a placement that it could have if some of those that stand
before it ended. Of those nodes' devices, what it could have by now is kept: free ones, and those of jobs behind it.
A job that would not give a device back when asked may have only what the gang will leave over. The others may use them
meanwhile: the gang takes them back when it starts. So it starts when the last of those ends that it waits for, if not
before, elsewhere.

Within the types that a gang may use, only the first one in the line reserves. A promise holds until the gang starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.reasons import Code, Reason
from weft.core.values import JobSpec
from weft.policies.base import Placer, Reserving
from weft.policies.plan.free_devices import FreeDevices, NodeGroup
from weft.policies.plan.preemption import Placed, make_way

ByKind = Callable[[str], Sequence[Placed]]


@dataclass(frozen=True, slots=True)
class Reservation:
    """What is promised to a gang, and how many of these devices other jobs still hold."""

    job: Job
    placement: Placement
    lacking: int

    @property
    def reason(self) -> Reason:
        return Reason(Code.RESERVED, (self.lacking, self.job.gang_size, self.job.gang_size - self.lacking))


class Reservations:
    """Kept by a planner. What is promised outlives a decision; all else is of the decision that is being made."""

    def __init__(self, order: Reserving, place: Placer) -> None:
        self.kept: dict[str, Reservation] = {}
        self._order = order
        self._place = place
        self._promised: Mapping[str, Reservation] = {}
        self._claimed: set[str] = set()
        self._spare: dict[int, int] = {}
        """Of the nodes that are promised: how many devices others may have for good."""
        self._version = -1

    def begin(self, version: int) -> None:
        """A decision begins. When the devices are not what they were, promises are void."""
        self._promised = self.kept if version == self._version else {}
        self._version = version
        self.kept, self._claimed, self._spare = {}, set(), {}

    def reserve(self, job: Job, kinds: Sequence[str], room: FreeDevices, behind: ByKind, ahead: ByKind) -> None:
        """The job has found no place. `behind` are those it could evict, of a type; `ahead` are all others that run."""
        if not self._order.reserves(job) or not self._claimed.isdisjoint(kinds):
            return
        if not room.could_hold(self._place, job.spec, kinds):
            return  # nor may it keep those behind it from reserving
        self._claimed.update(kinds)
        promised = self._promised.get(job.id)
        placement = promised.placement if promised else self._promise(job, kinds, room, behind, ahead)
        if placement is None:
            return
        within_reach = _within_reach(room, behind(room.kind_of(placement)))
        lacking = _lacking(placement, within_reach)
        if lacking < job.gang_size:
            self.kept[job.id] = Reservation(job, placement, lacking)
            self._spare |= {node: max(0, within_reach[node] - count) for node, count in placement}

    def place_for(self, job: Job) -> Placer:
        """How to choose a place for a job, seeing what is kept for others."""
        if not self._spare or not self._order.heeds_reservations(job):
            return self._place
        return SparingPlacer(self._place, self._spare)

    def allows(self, job: Job, placement: Placement) -> bool:
        if not self._spare or not self._order.heeds_reservations(job):
            return True
        return all(count <= self._spare.get(node, count) for node, count in placement)

    def taken(self, job: Job, placement: Placement) -> None:
        """It was granted devices: what it will not give back cannot be spared any more."""
        if self._spare and self._order.heeds_reservations(job):
            for node, count in placement:
                if node in self._spare:
                    self._spare[node] -= count

    def in_the_way_of(self, job: Job, kinds: Sequence[str], room: FreeDevices) -> Job | None:
        """The gang for which is kept what the job would need; None if it could start all the same."""
        place = self.place_for(job)
        if any(place.choose(job.spec, room.groups[kind], room.free_for(job.spec)) is not None for kind in kinds):
            return None
        return next((kept.job for kept in self.kept.values() if room.kind_of(kept.placement) in kinds), None)

    def _promise(
        self, job: Job, kinds: Sequence[str], room: FreeDevices, behind: ByKind, ahead: ByKind
    ) -> Placement | None:
        """Where the fewest devices are lacking; None where it has a claim on nothing."""
        best, fewest = None, job.gang_size
        for kind in kinds:
            leaving_first = behind(kind)
            if not room.total[kind] and not leaving_first:
                continue
            within_reach = _within_reach(room, leaving_first)
            holders = sorted(ahead(kind), key=lambda one: _emptiest(one, within_reach))
            way = make_way(self._place, job.spec, room.groups[kind], within_reach, holders)
            lacking = _lacking(way[0], within_reach) if way else fewest
            if way and lacking < fewest:
                best, fewest = way[0], lacking
        return best


@dataclass(frozen=True, slots=True)
class SparingPlacer:
    """A placement that leaves alone what is kept."""

    inner: Placer
    spare: Mapping[int, int]

    def shape(self, spec: JobSpec) -> object:
        return self.inner.shape(spec)

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        left = list(free)
        for node, most in self.spare.items():
            left[node] = min(left[node], most)
        return self.inner.choose(spec, group, left)

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        return self.inner.refusal(spec, group, free)


def _within_reach(room: FreeDevices, behind: Sequence[Placed]) -> list[int]:
    """The devices of each node that are free or held by one of these."""
    devices = list(room.free)
    for one in behind:
        for node, count in one.placement:
            devices[node] += count
    return devices


def _lacking(placement: Placement, within_reach: Sequence[int]) -> int:
    return sum(max(0, count - within_reach[node]) for node, count in placement)


def _emptiest(one: Placed, within_reach: Sequence[int]) -> tuple[int, int, tuple[float, int]]:
    """Those on nodes with the most devices within reach come last, node by node: they are waited for first."""
    return (*max((within_reach[node], -node) for node, _ in one.placement), one.job.tie)
