"""Whatever is free: fragments are filled before whole nodes are broken."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.plan import Placement
from weft.policies.group import NodeGroup


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
