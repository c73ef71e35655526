"""Free devices while a plan is being made, by node and device type, and the devices where a job ran last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.base import Placer
from weft.policies.plan.constraint_tally import ConstraintTally
from weft.policies.plan.node_groups import NodeGroup


class Room:
    """Free devices by node, and their sum by type."""

    __slots__ = ("_empty", "_kind", "_unbound", "bounds", "free", "groups", "total")

    def __init__(self, view: View) -> None:
        self.free = list(view.free_counts)
        self._kind = [node.device_type for node in view.nodes]
        present: dict[str, list[int]] = {}
        for node, kind in enumerate(self._kind):
            if view.is_present[node]:
                present.setdefault(kind, []).append(node)
        sizes = [node.device_count for node in view.nodes]
        self._empty = [size - blocked.bit_count() for size, blocked in zip(sizes, view.blocked_masks, strict=True)]
        self.groups = {kind: NodeGroup(nodes, sizes) for kind, nodes in present.items()}
        self.total = {kind: sum(self.free[node] for node in nodes) for kind, nodes in present.items()}
        self.bounds = ConstraintTally(view) if view.has_exceptions else None
        """What bounds some jobs besides; None if no live job is bound."""
        self._unbound = ConstraintTally(view, if_empty=True) if view.has_exceptions else None

    def free_for(self, spec: JobSpec) -> Sequence[int]:
        """How many free devices of each node a job could have."""
        return self.free if self.bounds is None or not spec.is_bound else self.bounds.limited(spec, self.free)

    def kind_of(self, placement: Placement) -> str:
        return self._kind[placement[0][0]]

    def take(self, placement: Placement) -> None:
        for node, count in placement:
            self.free[node] -= count
            self.total[self._kind[node]] -= count

    def give(self, placement: Placement) -> None:
        for node, count in placement:
            self.free[node] += count
            self.total[self._kind[node]] += count

    def holds(self, placement: Placement) -> bool:
        return all(self.free[node] >= count for node, count in placement)

    def could_hold(self, place: Placer, spec: JobSpec, kinds: Sequence[str]) -> bool:
        """Whether a job fits if nobody else holds anything, on the devices that are there and not somebody else's."""
        empty: Sequence[int] = self._empty
        if self._unbound is not None and spec.is_bound:
            empty = self._unbound.limited(spec, empty)
        return any(place.choose(spec, self.groups[kind], empty) is not None for kind in kinds)


class Placed(Protocol):
    """Whatever stands somewhere."""

    @property
    def job(self) -> Job: ...

    @property
    def placement(self) -> Placement: ...


P = TypeVar("P", bound=Placed)


def make_way(
    place: Placer, spec: JobSpec, group: NodeGroup, free: Sequence[int], behind: Sequence[P]
) -> tuple[Placement, list[P]] | None:
    """A place for the job if some of those behind it leave: as few as possible, from the end of the line.

    `behind` is in order, so its last is the first to go; all of them together leave devices enough, as far as
    counts tell. Returns the placement and who leaves.
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
    place: Placer, spec: JobSpec, group: NodeGroup, room: Room, behind: Sequence[P]
) -> tuple[Placement, list[P]] | None:
    """The same for a job that is bound: those leave whose devices and CPU cores it needs, and nobody besides."""
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


# ---- Where a job ran last: it may still be in memory there, so that going on costs next to nothing.


def home_of(job: Job, room: Room, kinds: Sequence[str], place: Placer) -> Placement | None:
    """Where it sits or ran last, if those nodes are there, of a type that it is to use, and no more than it needs, or
    than it minds and would be given."""
    allocation = job.seating.allocation if job.seating else job.last_allocation
    if not allocation:
        return None
    placement = tuple([(node, mask.bit_count()) for node, mask in allocation])
    kind = room.kind_of(placement)
    if kind not in kinds or not all(node in room.groups[kind] for node, _ in placement):
        return None
    if len(placement) <= room.groups[kind].fewest(job.gang_size):
        return placement
    there = dict(placement)
    free = [there.get(node, 0) for node in range(len(room.free))]
    return None if job.spec.skew or place.choose(job.spec, room.groups[kind], free) is None else placement


def make_way_home(home: Placement, room: Room, behind: Sequence[P]) -> list[P] | None:
    """Who of those behind is to leave so that it can go home: from the end of the line; None if that does not do."""
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
