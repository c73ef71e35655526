"""Where a job is in the queue and why it waits, computed when it is asked for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import merge
from itertools import islice

from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.base import Key, Match, Placer, QueueOrder
from weft.policies.order.keyed import KeyedOrder
from weft.policies.order.starvation import OverdueJobs
from weft.policies.plan.free_devices import FreeDevices
from weft.policies.plan.free_devices import refusal as bound_refusal
from weft.policies.plan.preemption import is_protected, only_starts_up, placement_of
from weft.policies.plan.queue_index import QueueIndex
from weft.policies.plan.reservation import Reservations


def explain(
    view: View,
    job: Job,
    order: QueueOrder,
    match: Match,
    place: Placer,
    reservations: Reservations | None = None,
    bypass: OverdueJobs | None = None,
    heads: Sequence[Job] | None = None,
) -> Reason:
    """`heads`: the waiting jobs of which one blocks if any does, where the planner knows them."""
    room = FreeDevices(view)

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
    starting = _first_starting(view, job, order, room, able) if order.preempts else None
    if starting is not None and refusal.code is Code.NEEDS_DEVICES:
        return Reason(Code.AFTER_STARTUP, (job.gang_size, free, starting.id))
    if taken and refusal.code is Code.NEEDS_DEVICES:
        return Reason(Code.OUTRANKED, (job.gang_size, free, taken))
    return refusal


def _first_starting(view: View, job: Job, order: QueueOrder, room: FreeDevices, kinds: Sequence[str]) -> Job | None:
    """Of the running jobs behind it, one that starts up on devices of these types."""
    for other in reversed(order.eviction_line(view)):
        if not order.goes_before(job, other, view.now):
            break
        if only_starts_up(other, view.now) and room.kind_of(placement_of(other)) in kinds:
            return other
    return None


def _reach_behind(view: View, job: Job, order: QueueOrder, room: FreeDevices, kind: str) -> int:
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


# ---- Positions in the queue from the line that the incremental planner keeps, without a look at the whole queue.

MOST_MOVED = 500
"""With more jobs than this whose places are out of date, sorting the whole queue is the better way."""


class QueuePositions:
    """The line is as of the last decision; jobs that have changed since are placed by their keys of now."""

    def __init__(self, line: QueueIndex, order: KeyedOrder, moved: dict[str, Job], view: View) -> None:
        self._line, self._order, self._now, self._moved = line, order, view.now, moved
        placed = (line.entries[job_id] for job_id in moved if job_id in line.entries)
        self._stale = sorted(entry.key for entry in placed if not entry.is_running)
        waiting = (job for job in moved.values() if job.is_waiting and view.jobs.get(job.id) is job)
        self._current = sorted((order.key(job, view.now), job) for job in waiting)
        self._current_keys = [key for key, _ in self._current]

    def of(self, job: Job) -> int | None:
        if not job.is_waiting:
            return None
        key = self._key(job)
        before = sum(bisect_left(ranked.keys, key) for ranked in self._line.waiting.values())
        return 1 + before - bisect_left(self._stale, key) + bisect_left(self._current_keys, key)

    def front(self, count: int) -> list[Job]:
        lines = (self._unmoved(shape) for shape in self._line.waiting)
        return [job for _, job in islice(merge(*lines, self._current), count)]

    def heads(self) -> list[Job]:
        """The jobs of which one blocks if any does: of each shape the first, as jobs that block come first."""
        firsts = (next(self._unmoved(shape), None) for shape in self._line.waiting)
        return [first[1] for first in firsts if first is not None] + [job for _, job in self._current]

    def _key(self, job: Job) -> Key:
        return self._order.key(job, self._now) if job.id in self._moved else self._line.entries[job.id].key

    def _unmoved(self, shape: tuple[object, ...]) -> Iterator[tuple[Key, Job]]:
        ranked = self._line.waiting[shape]
        return (
            (key, entry.job)
            for key, entry in zip(ranked.keys, ranked.items, strict=True)
            if entry.job.id not in self._moved
        )


def positions(line: QueueIndex | None, order: KeyedOrder, view: View) -> QueuePositions | None:
    """None if the line is not up to date, or too much of it is not."""
    if line is None or line.version != view.version:
        return None
    moved = {job.id: job for _, job in view.changes} | {entry.job.id: entry.job for entry in line.unsettled}
    moved |= view.seated  # their keys move with the time that they compute
    return QueuePositions(line, order, moved, view) if len(moved) <= MOST_MOVED else None
