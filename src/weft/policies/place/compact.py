"""On as few nodes as possible, but rather spread than waiting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.core.plan import Placement
from weft.core.reasons import Code, Reason
from weft.core.values import JobSpec
from weft.policies.group import NodeGroup
from weft.policies.place.anywhere import anywhere
from weft.policies.place.consolidated import whole_nodes_and_best_fit


@dataclass(frozen=True)
class Compact:
    def shape(self, spec: JobSpec) -> object:
        return None

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        gang_size = spec.gang_size
        return whole_nodes_and_best_fit(gang_size, group, free) or anywhere(gang_size, group, free)

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        return Reason(Code.NEEDS_DEVICES, (spec.gang_size, sum(free[node] for node in group)))
