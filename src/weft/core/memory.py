"""Device memory: the persistent and the ephemeral part of a job, and whether jobs fit beside each other."""

from __future__ import annotations

from collections.abc import Iterable

from weft.core.value import value


@value
class Memory:
    """Of one task on one device."""

    persistent_bytes: int
    """P: what is alive between two steps."""
    ephemeral_bytes: int
    """T: the most that a step needs on top."""


def needed_bytes(members: Iterable[tuple[Memory, int]]) -> int:
    """Salus's safety condition in its paper form, Σ P + Σ over lanes of max T, of jobs and their lanes on one device.

    Members of a lane take turns, so that one T is alive at a time; a job in lane 0 takes no turns.
    """
    total_bytes, lanes = 0, dict[int, int]()
    for memory, lane in members:
        total_bytes += memory.persistent_bytes
        if lane:
            lanes[lane] = max(lanes.get(lane, 0), memory.ephemeral_bytes)
        else:
            total_bytes += memory.ephemeral_bytes
    return total_bytes + sum(lanes.values())
