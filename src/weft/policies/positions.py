"""Positions in the queue from the line that the incremental planner keeps, without a look at the whole queue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from heapq import merge
from itertools import islice

from weft.core.job import Job
from weft.core.view import View
from weft.policies.line import Line
from weft.policies.stages import Key, KeyedOrder

MOST_MOVED = 500
"""With more jobs than this whose places are out of date, sorting the whole queue is the better way."""


class LinePositions:
    """The line is as of the last decision; jobs that have changed since are placed by their keys of now."""

    def __init__(self, line: Line, order: KeyedOrder, moved: dict[str, Job], view: View) -> None:
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


def positions(line: Line | None, order: KeyedOrder, view: View) -> LinePositions | None:
    """None if the line is not up to date, or too much of it is not."""
    if line is None or line.version != view.version:
        return None
    moved = {job.id: job for _, job in view.changes} | {entry.job.id: entry.job for entry in line.unsettled}
    moved |= view.seated  # their keys move with the time that they compute
    return LinePositions(line, order, moved, view) if len(moved) <= MOST_MOVED else None
