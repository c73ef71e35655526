"""2D-LAS, continuous: least attained device-seconds first, looked at anew after every quantum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.job import Job
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder

ROUNDING = 1e-9
"""A decision at the end of a quantum is in the next one, however the division is rounded."""


@dataclass
class Las(KeyedOrder):
    """What a running job attains counts from the end of the quantum.

    Quanta are the same for all jobs. If service counted at once, the job that was chosen at one decision would be
    behind those it was chosen from at the next, and jobs would be preempted as often as anything at all happens.
    """

    quantum_s: float

    rule = "the job with the least device-time goes first"
    preempts = True
    drifts = True

    def __post_init__(self) -> None:
        if not self.quantum_s > 0:
            raise InputError(f"quantum_s {self.quantum_s:g} is not above 0", "the default is 600")

    def key(self, job: Job, now: float) -> Key:
        if not job.is_running:
            return (job.attained(now), job.tie)
        served_s = max(0.0, now - max(job.served_from_s, self._quanta(now) * self.quantum_s))
        return (job.attained(now) - job.gang_size * job.speed * served_s, job.tie)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return (self._quanta(now) + 1) * self.quantum_s if jobs_waiting else math.inf

    def _quanta(self, now: float) -> int:
        return math.floor(now / self.quantum_s + ROUNDING)
