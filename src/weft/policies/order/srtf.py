"""Shortest remaining first, for jobs that declare their work: by time (SRTF), or by device-time (SRSF)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.job import Job
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder


@dataclass
class Srtf(KeyedOrder):
    """Remaining time is that on the job's best type: were it that of the type it runs on, two jobs of different
    speeds could each be the shorter one while it waits, and preempt each other for ever.
    """

    by_service: bool
    """Multiply by the gang size."""

    rule = "the shortest remaining work goes first"
    preempts = True
    is_moved_by_eviction = False
    drifts = True

    def key(self, job: Job, now: float) -> Key:
        remaining_s = job.remaining_at_best_s(now)
        return (remaining_s * job.gang_size if self.by_service else remaining_s, job.tie)
