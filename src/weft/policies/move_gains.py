"""What a move gained: a job's rate where it came to, against the one where it left."""

from __future__ import annotations

from weft.core.events import Measured
from weft.core.job import Job
from weft.core.ledger import LEFT, Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note
from weft.core.view import View


class MoveGains:
    """Only the first measure under the lease of the move tells that, and only if nobody else has come there.

    All is forgotten when the daemon is started anew: moves whose gain was not told by then never tell it.
    """

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, float]] = {}
        """Of those that were moved: the lease that the move gave them, and their rate before."""

    def expect(self, job: Job, before: Measured | None) -> None:
        """It is about to be moved. `before`: how fast it was, if that was measured where it leaves."""
        if before and before.generation == job.generation and before.rate_hz > 0:
            self._before[job.id] = (job.generation + 1, before.rate_hz)

    def told(self, view: View) -> list[Note]:
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
