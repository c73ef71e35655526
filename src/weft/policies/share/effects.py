"""What came of seats that nobody judges: of guests that are held back, and of the members of lanes."""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note
from weft.core.value import value
from weft.core.view import View
from weft.policies.share.spots import holder_of_seat

NAMED = 3
MOVED, MOVED_HZ = 0.05, 0.1
"""By so much of its speed alone; by such a part of its rate, where that is not known."""


@value
class _Told:
    """In which company, and what; the ratio is to its speed alone, None while that is not known."""

    company: Hashable
    ratio: float | None
    rate_hz: float

    def has_moved(self, now: _Told) -> bool:
        if self.ratio is None or now.ratio is None:
            return self.ratio is not now.ratio or abs(now.rate_hz - self.rate_hz) > MOVED_HZ * self.rate_hz
        return abs(now.ratio - self.ratio) >= MOVED


@dataclass
class Effects:
    """Each is told what it makes beside the others, once for each seat, and so is who holds a device, once for each
    set of guests that are held back for it; and again when that has moved. Of those that are packed their verdict
    tells."""

    _told: dict[str, _Told] = field(default_factory=dict, init=False, repr=False)

    def notes(self, view: View, leaving: Container[str] = ()) -> list[Note]:
        """Not to those who leave: that has its own reason."""
        if not view.seated:
            self._told.clear()
            return []
        found = []
        for change, job in view.changes:
            if change is Change.LEFT and job.id not in view.jobs:
                self._told.pop(job.id, None)
            elif change is Change.MEASURED and job.id not in leaving:
                found += self._note(view, job)
        return found

    def _note(self, view: View, job: Job) -> list[Note]:
        company = _company(view, job)
        if job.measured is None or company is None:
            return []
        rate_hz, alone_hz, before = job.measured.rate_hz, _alone_hz(view, job), self._told.get(job.id)
        now = _Told(company, round(rate_hz / alone_hz, 3) if alone_hz else None, rate_hz)
        if before is not None and before.company == company and not before.has_moved(now):
            return []
        self._told[job.id] = now
        beside = _named(job.measured.neighbours)
        if now.ratio is None:
            return [Note(job.id, Reason(Code.BESIDE_ONLY, (beside, rate_hz)))]
        return [Note(job.id, Reason(Code.BESIDE, (beside, now.ratio)))]


def _company(view: View, job: Job) -> Hashable:
    """What makes for something new to tell; None: there is nothing to tell of it."""
    if job.measured is None or job.measured.generation != job.generation or not job.measured.neighbours:
        return None
    if job.seating:
        holder = holder_of_seat(view, job)
        is_of_now = holder is None or holder.id in job.measured.neighbours
        is_to_be_told = is_of_now and (job.seating.is_throttled or job.seating.lane)
        return (job.generation, holder.id if holder else "") if is_to_be_told else None
    if not job.is_running:
        return None  # it has just lost its devices
    seated = [view.seated[each] for each in job.measured.neighbours if each in view.seated]
    held_back = frozenset(one.id for one in seated if one.seating and one.seating.is_throttled)
    return held_back or (job.generation if job.lane else None)


def _alone_hz(view: View, job: Job) -> float:
    """On devices like these; 0 if nobody has measured it."""
    allocation = job.seating.allocation if job.seating else job.allocation
    is_known = job.alone is not None and job.alone_on == view.ledger.devices.kind_of(allocation)
    return job.alone.rate_hz if job.alone and is_known else 0.0


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
