"""How fast jobs run that have their devices for themselves."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.commands import Allocation
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.group import NodeGroup
from weft.sim.world.model import World


class Ground:
    """How fast jobs run on the allocations of one cluster in one world."""

    def __init__(self, world: World, cluster: Cluster, nodes: Sequence[Node]) -> None:
        """`nodes` is the ledger's own list, to which those that come back after a failure are added."""
        self._world = world
        self._nodes = nodes
        self._types = cluster.device_types
        sizes = [node.device_count for node in cluster.nodes]
        self._groups = {
            kind: NodeGroup([i for i, node in enumerate(cluster.nodes) if node.device_type == kind], sizes)
            for kind in cluster.device_types
        }

    def pace(self, spec: JobSpec, allocation: Allocation) -> tuple[float, float]:
        """A gang's usual steps per second on these devices, and by what factor it is slower here."""
        kind = self._nodes[allocation[0][0]].device_type
        if spec.skew and len(allocation) > self._groups[kind].fewest(spec.gang_size):
            return spec.rate_hz(kind), 1.0 + spec.skew
        return spec.rate_hz(kind), 1.0

    def best_pace(self, spec: JobSpec) -> float:
        """Alone, consolidated, on the fastest type it may use and that could hold it."""
        if not spec.step_rate_hz:
            return 1.0
        able = [kind for kind in self._types if spec.allows(kind) and self._groups[kind].could_hold(spec.gang_size)]
        return max(spec.rate_hz(kind) for kind in able)
