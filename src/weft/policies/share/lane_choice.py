"""Salus's assignment of jobs to the lanes of one device, with the safety condition kept at every step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.core.memory import Memory, needed_bytes

Lanes = Mapping[int, Sequence[Memory]]
"""The members of each lane; under 0 those who take turns with nobody."""


def choose_lane(capacity_bytes: int, lanes: Lanes, job: Memory, most: int = 1_000) -> int | None:
    """A lane for the job: a new one, else the tightest that is large enough, else the smallest that may grow; or none.

    There are at most so many lanes. One is as large as its largest T, so joining never shrinks it below what members
    need.
    """
    members = [(memory, lane) for lane, some in lanes.items() for memory in some]

    def is_safe(lane: int) -> bool:
        return needed_bytes([*members, (job, lane)]) <= capacity_bytes

    new = next(number for number in range(1, len(lanes) + 2) if number not in lanes)
    if sum(lane > 0 for lane in lanes) < most and is_safe(new):
        return new
    sizes = sorted((max(memory.ephemeral_bytes for memory in some), lane) for lane, some in lanes.items() if lane)
    large_enough = [lane for size, lane in sizes if size >= job.ephemeral_bytes]
    to_grow = [lane for size, lane in sizes if size < job.ephemeral_bytes]
    return next((lane for lane in (*large_enough, *to_grow) if is_safe(lane)), None)
