"""On which nodes a gang is placed: consolidated, compact, by skew (Tiresias), or wherever devices are free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.plan import Placement
from weft.core.reasons import Code, Reason
from weft.core.values import JobSpec
from weft.policies.plan.free_devices import NodeGroup


@dataclass(frozen=True)
class Consolidated:
    def shape(self, spec: JobSpec) -> object:
        return None

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        return whole_nodes_and_best_fit(spec.gang_size, group, free)

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        fewest = group.fewest(spec.gang_size)
        largest = sum(sorted((free[node] for node in group), reverse=True)[:fewest])
        where = "one node" if fewest == 1 else f"{fewest} nodes"
        return Reason(Code.NEEDS_BLOCK, (spec.gang_size, largest, where))


def whole_nodes_and_best_fit(gang_size: int, group: NodeGroup, free: Sequence[int]) -> Placement | None:
    """The fewest nodes: the fullest free ones, and for the last part the node it leaves least free on."""
    nodes_left = group.fewest(gang_size)
    if nodes_left == 1:
        node = best_fit(gang_size, group.nodes, free)
        return None if node is None else ((node, gang_size),)
    parts: list[tuple[int, int]] = []
    wanted = gang_size
    for node in sorted(group, key=lambda node: -free[node])[:nodes_left]:
        if len(parts) == nodes_left - 1:
            break
        parts.append((node, min(free[node], wanted)))
        wanted -= parts[-1][1]
    taken = {node for node, _ in parts}
    last = best_fit(wanted, [node for node in group if node not in taken], free)
    return None if last is None else tuple(sorted([*parts, (last, wanted)]))


def best_fit(count: int, nodes: Sequence[int], free: Sequence[int]) -> int | None:
    """The first of the nodes with enough free devices that have the least."""
    best, best_free = None, 0
    for node in nodes:
        room = free[node]
        if room >= count and (best is None or room < best_free):
            if room == count:
                return node
            best, best_free = node, room
    return best


# ---- On as few nodes as possible, but rather spread than waiting.


@dataclass(frozen=True)
class Compact:
    def shape(self, spec: JobSpec) -> object:
        return None

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        gang_size = spec.gang_size
        return whole_nodes_and_best_fit(gang_size, group, free) or anywhere(gang_size, group, free)

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        return Reason(Code.NEEDS_DEVICES, (spec.gang_size, sum(free[node] for node in group)))


# ---- Tiresias's placement: gangs that suffer from being spread wait for a block, the others fill fragments.


@dataclass(frozen=True)
class SkewAware:
    pack_limit: float
    """PACKLIMIT: a gang whose skew is above it is consolidated."""

    def __post_init__(self) -> None:
        if not self.pack_limit >= 0:
            raise InputError(f"pack_limit {self.pack_limit:g} is not 0 or more", "the default is 0.2")

    def shape(self, spec: JobSpec) -> bool:
        return spec.gang_size > 1 and (spec.skew or 0.0) > self.pack_limit

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        gang_size = spec.gang_size
        if gang_size > 1 and (spec.skew or 0.0) > self.pack_limit:
            return whole_nodes_and_best_fit(gang_size, group, free)
        node = best_fit(gang_size, group.nodes, free)
        return anywhere(gang_size, group, free) if node is None else ((node, gang_size),)

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        return (Consolidated() if self.shape(spec) else Compact()).refusal(spec, group, free)


# ---- Whatever is free: fragments are filled before whole nodes are broken.


def anywhere(gang_size: int, group: NodeGroup, free: Sequence[int]) -> Placement | None:
    wanted = gang_size
    parts = []
    for node in sorted((node for node in group if free[node]), key=free.__getitem__):
        count = min(wanted, free[node])
        parts.append((node, count))
        wanted -= count
        if wanted == 0:
            return tuple(sorted(parts))
    return None
