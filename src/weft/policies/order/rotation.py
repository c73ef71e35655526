"""Gandiva's time-slicing: everybody in turn for a quantum, and who has never run goes first."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.values import EPSILON_S
from weft.policies.stages import Key, KeyedOrder

LEAST_S = 2.0
"""Steps of milliseconds make no quantum shorter than this: switching would cost more than it gives."""
FIRST_S = 5.0
"""So long, or until it has been measured, nobody who is new takes the devices of one that was new just before."""
NEW, IN_QUANTUM, IN_TURN, HAD_ITS_TURN, AS_GUEST = range(5)


@dataclass
class Rotation(KeyedOrder):
    """Who waits longest goes next. A job keeps its devices for `quantum_s` or `quantum_steps`, whichever is less; then
    it stands at the end of the line, and keeps them only if nobody wants them.

    A job that has never run does not wait for the end of a quantum: it takes the devices of whoever began last. A guest
    computes already, so it is in nobody's turn: it gets devices of its own when nobody else wants them.
    """

    quantum_s: float
    quantum_steps: float

    rule = "everybody in turn for a quantum; who has never run goes first"
    preempts = True
    returns_home = True
    heeds_measures = True

    def __post_init__(self) -> None:
        if not (self.quantum_s > 0 and self.quantum_steps > 0):
            raise InputError("a quantum is not above 0", "the defaults are quantum_s=60, quantum_steps=100")

    def key(self, job: Job, now: float) -> Key:
        if job.seating:
            return (AS_GUEST, job.since_s, job.tie)
        if not job.is_running:
            return (NEW, job.tie) if job.generation == 0 else (IN_TURN, job.since_s, job.tie)
        ends_s = self._quantum_ends_s(job)
        if now + EPSILON_S >= ends_s:
            return (HAD_ITS_TURN, -ends_s, job.tie)  # who has stayed on the longest leaves first
        is_new = job.generation == 1 and job.measured is None and now + EPSILON_S < job.since_s + FIRST_S
        return (NEW, job.tie) if is_new else (IN_QUANTUM, job.since_s, job.tie)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        if not is_running:
            return math.inf
        since_s = job.since_s if job.is_running else now
        ends = (since_s + self._quantum_of(job), since_s + FIRST_S)
        return min((end for end in ends if now + EPSILON_S < end), default=math.inf)

    def _quantum_ends_s(self, job: Job) -> float:
        return job.since_s + self._quantum_of(job)

    def _quantum_of(self, job: Job) -> float:
        rate_hz = job.measured.rate_hz if job.measured else 0.0
        if rate_hz <= 0:
            return self.quantum_s
        return min(self.quantum_s, max(LEAST_S, self.quantum_steps / rate_hz))
