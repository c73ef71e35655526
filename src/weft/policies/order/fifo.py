"""By arrival (FIFO). Strict: the head of the queue blocks. Otherwise jobs that do not fit are skipped (backfill)."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.job import Job
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder


@dataclass
class Fifo(KeyedOrder):
    """A head that the devices that are there could not hold is passed by, whether a node is lost for good or will be
    back: that is not known, and all others would stand still. When its devices are there again it is the head again.
    """

    strict: bool

    rule = "first come, first served"
    blockers_come_first = True  # all do, or none

    def __post_init__(self) -> None:
        self.may_block = self.strict

    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def blocks(self, job: Job, now: float) -> bool:
        return self.strict
