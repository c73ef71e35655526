"""Opportunistic jobs (AntMan): guests use what a holder leaves idle; starved guests are evicted."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import FILLED, LEAST_SPEED, Note, Offer, Withdrawal
from weft.core.text import duration_text
from weft.core.value import value
from weft.core.view import View
from weft.policies.share.candidates import Candidate, holder_of_seat, utilisation_of
from weft.policies.share.seat_review import BackOffs


@dataclass
class IdleFill:
    """A guest needs a known memory, and a holder whose own utilisation was measured and is below `busy`."""

    busy: float = 0.8
    """AntMan's M: a device that is busier than this has nothing to give away."""
    guests: int = 1
    """How many at most beside one holder of their own size."""

    def __post_init__(self) -> None:
        if not 0 < self.busy <= 1 or self.guests < 1:
            raise InputError("filling takes a busy above 0 and up to 1, and at least 1 guest", "e.g. busy=0.8")

    def may_sit(self, job: Job) -> bool:
        return job.is_waiting and job.seating is None and job.spec.may_share and job.memory is not None

    def offer(self, candidate: Candidate, guest: Job) -> Offer:
        idle = 1.0 - utilisation_of(candidate.holder)[0]
        speed = max(LEAST_SPEED, min(1.0, FILLED * idle / max(utilisation_of(guest)[0], 0.01)))
        seating = Seating(candidate.allocation, is_throttled=True, speed=speed)
        return Offer(guest.id, seating, Reason(Code.OPPORTUNISTIC, (candidate.holder.id,)))


def is_quiet(job: Job, busy: float) -> bool:
    return job.alone is not None and job.alone.utilisation < busy


# ---- Throttled guests that get next to nothing: their holder leaves no time idle, whatever it did before.

STEPS = 10
"""A rate is known after so many, warm-up and all."""
UNKNOWN = 4
"""So many times as patient with a guest that may be slow by itself."""


@dataclass
class StarvationGuard:
    """A guest that makes less than `least` of what it makes alone leaves, and may sit elsewhere.

    A guest that never made a step cannot be measured: one without a report for as long as it would take at that
    rate, and `patience_s` at least, leaves too; four times that where its rate alone is not known. No job sits beside
    its holder for `back_off_s`, then twice as long.
    """

    least: float = 0.03
    patience_s: float = 300.0
    back_off_s: float = 600.0
    _holders: BackOffs[str] = field(init=False, repr=False)
    _unheard: list[tuple[float, float, str, int]] = field(default_factory=list, init=False, repr=False)
    """When a guest must have been measured, since when it sits, which guest, and which lease: a heap."""

    def __post_init__(self) -> None:
        self._holders = BackOffs(self.back_off_s)

    # ---- new guests

    def may_sit_beside(self, holder: Job, now: float) -> bool:
        return not self._holders.is_on(holder.id, now)

    def watch(self, view: View, offer: Offer) -> None:
        guest = view.jobs[offer.job_id]
        if offer.seating.is_throttled:
            self._watch(guest, view.now, guest.generation + 1)

    def watch_all(self, view: View) -> None:
        """The guests that sit already."""
        self._unheard.clear()
        for guest in view.seated.values():
            if guest.seating and guest.seating.is_throttled:
                self._watch(guest, view.now, guest.generation)

    def _watch(self, guest: Job, now: float, generation: int) -> None:
        enough_s = UNKNOWN * self.patience_s
        if guest.alone and guest.alone.rate_hz > 0:
            enough_s = max(self.patience_s, STEPS / (self.least * guest.alone.rate_hz))
        heappush(self._unheard, (now + enough_s, now, guest.id, generation))

    # ---- starved guests

    def withdrawn(self, view: View) -> list[Withdrawal]:
        if not view.seated:
            self._unheard.clear()
            return []
        found = dict[str, Withdrawal]()
        for guest, holder, reason in (*self._measured(view), *self._never_heard_of(view)):
            self._holders.begin(holder.id, view.now)
            found[guest.id] = Withdrawal(guest.id, reason)
        return list(found.values())

    def _measured(self, view: View) -> Iterator[tuple[Job, Job, Reason]]:
        for change, guest in view.changes:
            if change is not Change.MEASURED or not guest.seating or not guest.seating.is_throttled:
                continue
            if guest.measured is None or guest.alone is None or not guest.alone.rate_hz or not _is_heard_of(guest):
                continue
            rate = guest.measured.rate_hz / guest.alone.rate_hz
            holder = holder_of_seat(view, guest) if rate < self.least else None
            if holder is not None and holder.id in guest.measured.neighbours:
                yield guest, holder, Reason(Code.STARVED, (holder.id, round(rate, 4)))

    def _never_heard_of(self, view: View) -> Iterator[tuple[Job, Job, Reason]]:
        while self._unheard:
            until_s, since_s, job_id, generation = self._unheard[0]
            guest = view.jobs.get(job_id)
            is_void = guest is None or guest.seating is None or guest.generation != generation or _is_heard_of(guest)
            if until_s > view.now and not is_void:
                return
            heappop(self._unheard)
            if guest is None or is_void:
                continue
            holder = holder_of_seat(view, guest)
            if holder is None:  # the next holder has not starved it yet
                heappush(self._unheard, (view.now + self.patience_s, view.now, job_id, generation))
            else:
                yield guest, holder, Reason(Code.STARVED_UNSEEN, (holder.id, duration_text(view.now - since_s)))

    # ---- when to look again

    def has_news(self, view: View) -> bool:
        return self._holders.has_ended(view.now, lambda holder: holder not in view.running)

    @property
    def next_news_s(self) -> float:
        return self._holders.next_end_s

    @property
    def next_look_s(self) -> float:
        """When a guest may have to leave, though nothing happens."""
        return self._unheard[0][0] if self._unheard else math.inf


def _is_heard_of(guest: Job) -> bool:
    return guest.measured is not None and guest.measured.generation == guest.generation


# ---- What came of seats that have no verdict: of throttled guests, and of the members of lanes.

NAMED = 3
MOVED, MOVED_HZ = 0.05, 0.1
"""By so much of its speed alone; by such a part of its rate, where that is not known."""


@value
class _SeatReport:
    """The neighbours, and the rate beside them; the ratio is to the rate alone, None while that is not known."""

    neighbours: Hashable
    ratio: float | None
    rate_hz: float

    def has_moved(self, now: _SeatReport) -> bool:
        if self.ratio is None or now.ratio is None:
            return self.ratio is not now.ratio or abs(now.rate_hz - self.rate_hz) > MOVED_HZ * self.rate_hz
        return abs(now.ratio - self.ratio) >= MOVED


@dataclass
class SeatEffects:
    """Each guest has a note on its rate beside the others, once for each seat, and so has a holder, once for each
    set of guests that are throttled for it; and again when that has moved. Packed jobs have a verdict
    instead."""

    _reported: dict[str, _SeatReport] = field(default_factory=dict, init=False, repr=False)

    def notes(self, view: View, leaving: Container[str] = ()) -> list[Note]:
        """Not for guests that leave: that has its own reason."""
        if not view.seated:
            self._reported.clear()
            return []
        found = []
        for change, job in view.changes:
            if change is Change.LEFT and job.id not in view.jobs:
                self._reported.pop(job.id, None)
            elif change is Change.MEASURED and job.id not in leaving:
                found += self._note(view, job)
        return found

    def _note(self, view: View, job: Job) -> list[Note]:
        neighbours = _noted_neighbours(view, job)
        if job.measured is None or neighbours is None:
            return []
        rate_hz, alone_hz, before = job.measured.rate_hz, _alone_hz(view, job), self._reported.get(job.id)
        now = _SeatReport(neighbours, round(rate_hz / alone_hz, 3) if alone_hz else None, rate_hz)
        if before is not None and before.neighbours == neighbours and not before.has_moved(now):
            return []
        self._reported[job.id] = now
        beside = _named(job.measured.neighbours)
        if now.ratio is None:
            return [Note(job.id, Reason(Code.BESIDE_ONLY, (beside, rate_hz)))]
        return [Note(job.id, Reason(Code.BESIDE, (beside, now.ratio)))]


def _noted_neighbours(view: View, job: Job) -> Hashable:
    """The neighbours that a note would be about; None if there is nothing to note."""
    if job.measured is None or job.measured.generation != job.generation or not job.measured.neighbours:
        return None
    if job.seating:
        holder = holder_of_seat(view, job)
        is_of_now = holder is None or holder.id in job.measured.neighbours
        is_noted = is_of_now and (job.seating.is_throttled or job.seating.lane)
        return (job.generation, holder.id if holder else "") if is_noted else None
    if not job.is_running:
        return None  # it has just lost its devices
    seated = [view.seated[each] for each in job.measured.neighbours if each in view.seated]
    held_back = frozenset(one.id for one in seated if one.seating and one.seating.is_throttled)
    return held_back or (job.generation if job.lane else None)


def _alone_hz(view: View, job: Job) -> float:
    """On devices like these; 0 if that was not measured."""
    allocation = job.seating.allocation if job.seating else job.allocation
    is_known = job.alone is not None and job.alone_on == view.devices_kind(allocation)
    return job.alone.rate_hz if job.alone and is_known else 0.0


def _named(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")
