"""What moves and resumes cost and gain, learnt from measurements."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from weft.core.events import Measured
from weft.core.job import Job
from weft.core.ledger import LEFT, Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note
from weft.core.view import View

WEIGHT = 0.25
"""Of the newest move in the average: a few of them outweigh what was assumed."""
RESUMES = 8
"""So many resumes are remembered, and what was assumed as long as there are fewer."""


@dataclass
class MoveCost:
    """Forgotten when the daemon is started anew: then it begins with what is assumed once more."""

    seconds: float
    resume_s: float = 0.0
    """What a resume costs on the devices that a job was paused on."""
    _resumes_s: deque[float] = field(init=False, repr=False)
    _measuring_s: float = field(default=math.inf, init=False, repr=False)
    _measured_under: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By job, the last lease under which it was measured: later measures say nothing of how it began."""
    _sat_under: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By job, the last lease under which it was a guest: a guest that is then granted its seat resumes nothing."""

    def __post_init__(self) -> None:
        self._resumes_s = deque([self.resume_s], RESUMES)

    def learn(self, view: View) -> None:
        for change, job in view.changes:
            if change is Change.LEFT:
                self._measured_under.pop(job.id, None)
                self._sat_under.pop(job.id, None)
            elif change is Change.PROGRESSED and job.seating is not None:
                self._sat_under[job.id] = job.generation
            elif change is Change.MEASURED and job.is_computing and self._is_first(job):
                self._take_in(job, view.now - job.since_s)

    def _is_first(self, job: Job) -> bool:
        was_under, self._measured_under[job.id] = self._measured_under.get(job.id, 0), job.generation
        return was_under != job.generation and job.measured is not None and job.measured.generation == job.generation

    def _take_in(self, job: Job, elapsed_s: float) -> None:
        self._measuring_s = min(self._measuring_s, elapsed_s)
        if has_moved(job):
            self.seconds += WEIGHT * (elapsed_s - self._measuring_s - self.seconds)
        elif job.last_allocation and job.seating is None and self._sat_under.get(job.id) != job.generation - 1:
            self._resumes_s.append(elapsed_s - self._measuring_s)
            self.resume_s = min(self._resumes_s)


def has_moved(job: Job) -> bool:
    """Whether it computes on other devices than under its last lease."""
    here = job.seating.allocation if job.seating else job.allocation
    return bool(job.last_allocation) and job.last_allocation != here


# ---- What a move gained: a job's rate where it came to, against the one where it left.


class MoveGains:
    """Only the first measure under the lease of the move shows that, and only if no other job has come there.

    All is forgotten when the daemon is started anew: the gain of moves that were not measured by then is never
    reported.
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, float]] = {}
        """Of those that were moved: the lease that the move gave them, and their rate before."""

    def expect(self, job: Job, before: Measured | None) -> None:
        """It is about to be moved. `before`: how fast it was, if that was measured where it leaves."""
        if before and before.generation == job.generation and before.rate_hz > 0:
            self._before[job.id] = (job.generation + 1, before.rate_hz)

    def notes(self, view: View) -> list[Note]:
        notes = []
        for change, job in view.changes if self._before else ():
            if change is LEFT:
                self._before.pop(job.id, None)
            elif change is Change.MEASURED and job.measured and job.id in self._before:
                measured, (generation, rate_hz) = job.measured, self._before[job.id]
                if measured.generation >= generation:
                    del self._before[job.id]
                if measured.generation == generation and not measured.neighbours:
                    gain = round(measured.rate_hz / rate_hz - 1, 3)
                    notes.append(Note(job.id, Reason(Code.MIGRATION_GAINED, (gain,))))
        return notes
