"""Tiresias's placement: gangs that suffer from being spread wait for a block, the others fill fragments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.plan import Placement
from weft.core.reasons import Reason
from weft.core.values import JobSpec
from weft.policies.group import NodeGroup
from weft.policies.place.anywhere import anywhere
from weft.policies.place.compact import Compact
from weft.policies.place.consolidated import Consolidated, best_fit, whole_nodes_and_best_fit


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
