"""Jobs that need more than free devices while a plan is being made: CPU cores of a host, or devices by name."""

from __future__ import annotations

from collections.abc import Sequence
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
from weft.policies.plan.node_groups import NodeGroup


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
