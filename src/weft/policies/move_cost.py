"""What moves and resumes cost, learnt from how much later a job is measured after one than without.

From a lease's first instant to the first measure under it, a job gets going and is then measured. Who begins where it
computes already gets going at once: the shortest such time there was is what measuring takes. What a job takes beyond
that was lost: after a move to stop, to save, to launch, to load; on the devices it was paused on, to resume. That is an
upper bound where steps are long or the machine is busy. Resumes are much alike, so the least of the last few is taken:
a high estimate makes quanta long, and long quanta leave little to learn from.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
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
    """By job, the last lease under which it was measured: later measures tell nothing of how it began."""
    _sat_under: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """By job, the last lease under which it was a guest: who is then given its seat resumes nothing."""

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
