"""2D-LAS, continuous: least attained device-seconds first, looked at anew after every quantum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.job import Job
from weft.policies.stages import Key, KeyedOrder


@dataclass
class Attained(KeyedOrder):
    quantum_s: float
    """While jobs wait, the longest time between two decisions."""

    rule = "who has had the least device-time goes first"
    preempts = True
    is_moved_by_eviction = False
    drifts = True

    def __post_init__(self) -> None:
        if not self.quantum_s > 0:
            raise InputError(f"quantum_s {self.quantum_s:g} is not above 0", "the default is 600")

    def key(self, job: Job, now: float) -> Key:
        return (job.attained(now), job.tie)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return now + self.quantum_s if jobs_waiting else math.inf
