"""By arrival. Strict: the head of the line blocks. Otherwise what does not fit is skipped."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.job import Job
from weft.policies.stages import Key, KeyedOrder


@dataclass
class Arrival(KeyedOrder):
    strict: bool

    rule = "first come, first served"
    blockers_come_first = True  # all do, or none

    def __post_init__(self) -> None:
        self.may_block = self.strict

    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def blocks(self, job: Job, now: float) -> bool:
        return self.strict
