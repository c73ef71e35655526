"""Why a job waits, worked out when somebody asks."""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.bounds import refusal as bound_refusal
from weft.policies.bypass import Bypass
from weft.policies.draft import is_protected, placement_of
from weft.policies.reserving import Reservations
from weft.policies.room import Room
from weft.policies.stages import KeyedOrder, Match, Order, Place


def explain(
    view: View,
    job: Job,
    order: Order,
    match: Match,
    place: Place,
    reservations: Reservations | None = None,
    bypass: Bypass | None = None,
    heads: Sequence[Job] | None = None,
) -> Reason:
    """`heads`: the waiting jobs of which one blocks if any does, where the planner knows them."""
    room = Room(view)

    def could_hold(other: Job) -> bool:
        return room.could_hold(place, other.spec, match.types(other.spec, tuple(room.groups)))

    kinds = match.types(job.spec, tuple(room.groups))
    sizes = {kind: sum(view.nodes[node].device_count for node in room.groups[kind]) for kind in kinds}
    able = [kind for kind in kinds if sizes[kind] >= job.gang_size]
    if not able:
        wanted = "any" if job.spec.device_types is None else "|".join(sorted(job.spec.device_types))
        return Reason(Code.NEEDS_TYPE, (job.gang_size, wanted, max(sizes.values(), default=0)))
    overdue = bypass.blocker(view, job, could_hold) if bypass else None
    if overdue is not None:
        return Reason(Code.BEHIND_HEAD, (overdue.id, overdue.gang_size))
    if heads is not None and isinstance(order, KeyedOrder):
        why_not = order.why_behind(view, job, could_hold, heads)
    else:
        why_not = order.why_not(view, job, could_hold)
    if why_not is not None:
        return why_not
    if reservations is not None and job.id in reservations.kept:
        return reservations.kept[job.id].reason
    refusal = place.refusal(job.spec, room.groups[able[0]], room.free)
    free = room.total[able[0]]
    taken = _reach_behind(view, job, order, room, able[0]) if order.preempts else 0
    fitting = [kind for kind in able if place.choose(job.spec, room.groups[kind], room.free_for(job.spec)) is not None]
    if job.spec.is_bound and not fitting:
        return bound_refusal(view, job, place, room.groups[able[0]], room.free) or refusal
    if fitting:
        kept_for = reservations.in_the_way_of(job, fitting, room) if reservations is not None else None
        return Reason(Code.NEXT_DECISION) if kept_for is None else Reason(Code.KEPT_FOR, (kept_for.id,))
    if taken and refusal.code is Code.NEEDS_DEVICES:
        return Reason(Code.OUTRANKED, (job.gang_size, free, taken))
    return refusal


def _reach_behind(view: View, job: Job, order: Order, room: Room, kind: str) -> int:
    """Add to the room what the job could take from running jobs behind it; returns how many devices of a type."""
    behind = 0
    for other in reversed(order.eviction_line(view)):
        if not order.goes_before(job, other, view.now):
            break
        if not is_protected(other, view.now):
            placement = placement_of(other)
            room.give(placement)
            behind += other.gang_size if room.kind_of(placement) == kind else 0
    return behind
