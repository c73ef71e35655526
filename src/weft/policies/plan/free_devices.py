"""Free devices while a plan is being made: nodes by device type, what is free on them, and for whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy

from weft.core.bounds import cpu_counts, cpus_on, host_of
from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.reasons import Code, Reason
from weft.core.sharing import devices_of
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.base import Placer


class NodeGroup:
    """Node indexes in order, with the size of each."""

    __slots__ = ("_fewest", "_members", "_sizes", "nodes")

    def __init__(self, nodes: Sequence[int], sizes: Sequence[int]) -> None:
        self.nodes = list(nodes)
        self._members = frozenset(nodes)
        self._sizes = sorted((sizes[node] for node in nodes), reverse=True)
        self._fewest: dict[int, int] = {}

    def __contains__(self, node: object) -> bool:
        return node in self._members

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def could_hold(self, gang_size: int) -> bool:
        """Whether a gang fits if all nodes are empty."""
        return self.fewest(gang_size) <= len(self.nodes)

    def fewest(self, gang_size: int) -> int:
        """How many nodes a gang takes if all are empty; more than there are if it never fits."""
        known = self._fewest.get(gang_size)
        if known is None:
            known = self._fewest[gang_size] = self._count_fewest(gang_size)
        return known

    def _count_fewest(self, gang_size: int) -> int:
        for count, size in enumerate(self._sizes, start=1):
            gang_size -= size
            if gang_size <= 0:
                return count
        return len(self._sizes) + 1


# ---- Device types: how many there are of each, which one a job runs on, which one it would rather have.


def devices_by_type(view: View) -> dict[str, int]:
    """Of the nodes that are there, in their order."""
    sizes = [node.device_count for node in view.nodes]
    return _by_type(view, sizes)


def free_by_type(view: View) -> dict[str, int]:
    return _by_type(view, view.free_counts)


def _by_type(view: View, counts: Sequence[int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for node, is_here, count in zip(view.nodes, view.is_present, counts, strict=True):
        if is_here:
            sums[node.device_type] = sums.get(node.device_type, 0) + count
    return sums


def type_of(job: Job, view: View) -> str:
    """The type a running job runs on."""
    return view.nodes[job.allocation[0][0]].device_type


def fastest_first(spec: JobSpec, present: Iterable[str]) -> tuple[str, ...]:
    """The types a job may use. Where rates are equal or unknown, in the order given."""
    return tuple(sorted((kind for kind in present if spec.allows(kind)), key=lambda kind: -spec.rate_hz(kind)))


# ---- What is free while a plan is being made.


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


# ---- Jobs that need more than free devices: CPU cores of a host, or devices by name.


class ConstraintTally:
    """The free devices and CPU cores, as a plan grows."""

    __slots__ = ("_cpus_left", "_hosts", "_masks", "_nodes")

    def __init__(self, view: View, *, if_empty: bool = False) -> None:
        """`if_empty`: as if no job held anything."""
        self._nodes = view.nodes
        self._hosts = [host_of(node) for node in view.nodes]
        self._masks = list(view.free_masks)
        self._cpus_left = view.cpus_left(with_guests=False)  # guests make way
        if if_empty:
            there = zip(view.nodes, view.is_present, view.blocked_masks, strict=True)
            self._masks = [((1 << node.device_count) - 1) & ~blocked if here else 0 for node, here, blocked in there]
            self._cpus_left = cpu_counts(view.nodes, view.is_present)

    def limited(self, spec: JobSpec, free: Sequence[int]) -> list[int]:
        """How many of the free devices of each node a job could have."""
        return [self._most(spec, node, count) for node, count in enumerate(free)]

    def _most(self, spec: JobSpec, node: int, count: int) -> int:
        if spec.device_ids:
            mask = self._nodes[node].mask_of(spec.device_ids)
            if not mask or mask & ~self._masks[node] or count < spec.gang_size:
                return 0
            count = spec.gang_size
        left = self._cpus_left.get(self._hosts[node])
        if spec.cpus and left is not None:
            count = min(count, max(0, left) * spec.gang_size // spec.cpus)
        return count

    def give(self, job: Job) -> None:
        """A running job is to leave its devices."""
        self._use(job.spec, [(node, mask.bit_count()) for node, mask in job.allocation], -1)
        for node, mask in job.allocation:
            self._masks[node] |= mask

    def has_kept(self, job: Job) -> bool:
        """Whether a running job that was to leave can stay after all."""
        if any(mask & ~self._masks[node] for node, mask in job.allocation):
            return False
        return all(self._most(job.spec, node, mask.bit_count()) == mask.bit_count() for node, mask in job.allocation)

    def keep(self, job: Job) -> None:
        self._use(job.spec, [(node, mask.bit_count()) for node, mask in job.allocation], 1)
        for node, mask in job.allocation:
            self._masks[node] &= ~mask

    def take(self, job: Job, placement: Placement) -> None:
        self._use(job.spec, placement, 1)
        for node, _ in placement if job.spec.device_ids else ():
            self._masks[node] &= ~self._nodes[node].mask_of(job.spec.device_ids)

    def without(self, leaving: Sequence[Job]) -> ConstraintTally:
        """The same, if these running jobs leave."""
        other = copy(self)
        other._masks, other._cpus_left = list(self._masks), dict(self._cpus_left)
        for job in leaving:
            other.give(job)
        return other

    def most_cpus(self, group: NodeGroup) -> int | None:
        """The CPU cores that are left on the node of a group that has most; None if that is not known."""
        known = [self._cpus_left[self._hosts[node]] for node in group if self._hosts[node] in self._cpus_left]
        return max(known) if known else None

    def _use(self, spec: JobSpec, placement: Placement | Sequence[tuple[int, int]], sign: int) -> None:
        for node, count in placement if spec.cpus else ():
            host = self._hosts[node]
            if host in self._cpus_left:
                self._cpus_left[host] -= sign * cpus_on(spec, count)


def refusal(view: View, job: Job, place: Placer, group: NodeGroup, free: Sequence[int]) -> Reason | None:
    """Why a bound job finds no place where one that is not bound would; None if devices are what it lacks."""
    spec, empty = job.spec, ConstraintTally(view, if_empty=True)
    ids = ", ".join(map(str, sorted(spec.device_ids)))
    if spec.device_ids:
        nodes = [node for node in group if view.nodes[node].mask_of(spec.device_ids)]
        if not nodes:
            return Reason(Code.NO_IDS, (ids,))
        taken = ((nodes[0], view.nodes[nodes[0]].mask_of(spec.device_ids) & ~view.free_masks[nodes[0]]),)
        if taken[0][1]:
            return Reason(Code.NEEDS_IDS, (ids, _named(view, taken)))
    most, left = empty.most_cpus(group), ConstraintTally(view).most_cpus(group)
    if spec.cpus and most is not None and left is not None:
        sizes = [node.device_count for node in view.nodes]
        if place.choose(spec, group, empty.limited(spec, sizes)) is None:
            return Reason(Code.NO_CPUS, (spec.cpus, most))
        if place.choose(spec, group, free) is not None:
            return Reason(Code.NEEDS_CPUS, (spec.cpus, left))
    return None


def _named(view: View, taken: Allocation) -> str:
    return ", ".join(str((view.nodes[node].device_ids or range(at + 1))[at]) for node, at in devices_of(taken))
