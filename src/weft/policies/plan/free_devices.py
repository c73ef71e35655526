"""Free devices while a plan is being made, by node and device type, and the devices where a job ran last."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.base import Placer
from weft.policies.plan.constraint_tally import ConstraintTally
from weft.policies.plan.node_groups import NodeGroup


class FreeDevices:
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
        """Whether a job fits if no other holds anything, on the devices that are there and not blocked."""
        empty: Sequence[int] = self._empty
        if self._unbound is not None and spec.is_bound:
            empty = self._unbound.limited(spec, empty)
        return any(place.choose(spec, self.groups[kind], empty) is not None for kind in kinds)


# ---- Where a job ran last: it may still be in memory there, so that going on costs next to nothing.


def home_of(job: Job, room: FreeDevices, kinds: Sequence[str], place: Placer) -> Placement | None:
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
