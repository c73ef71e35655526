"""Where a job ran last: it may still be in memory there, so that going on costs next to nothing."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.job import Job
from weft.core.plan import Placement
from weft.policies.room import P, Room
from weft.policies.stages import Place


def home_of(job: Job, room: Room, kinds: Sequence[str], place: Place) -> Placement | None:
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


def make_way_home(home: Placement, room: Room, behind: Sequence[P]) -> list[P] | None:
    """Who of those behind is to leave so that it can go home: from the end of the line; None if that does not do."""
    lacking = {node: count - room.free[node] for node, count in home if count > room.free[node]}
    leaving = []
    for one in reversed(behind):
        if not lacking:
            break
        if any(node in lacking for node, _ in one.placement):
            leaving.append(one)
            for node, count in one.placement:
                if node in lacking:
                    lacking[node] -= count
                    if lacking[node] <= 0:
                        del lacking[node]
    return None if lacking else leaving
