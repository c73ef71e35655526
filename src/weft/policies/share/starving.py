"""Guests that are held back and get next to nothing: their holder leaves no time idle, whatever it did before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Offer, Withdrawal
from weft.core.view import View
from weft.core.words import span
from weft.policies.share.backing_off import BackOffs
from weft.policies.share.spots import holder_of_seat

STEPS = 10
"""A rate is known after so many, warm-up and all."""
UNKNOWN = 4
"""So many times as patient with a guest that may be slow by itself."""


@dataclass
class Starving:
    """A guest that makes less than `least` of what it makes alone leaves, and may sit elsewhere.

    Nobody measures a guest that never made a step: one of which nothing was heard for as long as it would take at that
    rate, and `patience_s` at least, leaves too; four times that where its rate alone is not known. Nobody sits beside
    its holder for `back_off_s`, then twice as long.
    """

    least: float = 0.03
    patience_s: float = 300.0
    back_off_s: float = 600.0
    _holders: BackOffs[str] = field(init=False, repr=False)
    _unheard: list[tuple[float, float, str, int]] = field(default_factory=list, init=False, repr=False)
    """Until when something must be heard of whose seat, since when it has it, and of which lease: a heap."""

    def __post_init__(self) -> None:
        self._holders = BackOffs(self.back_off_s)

    # ---- who sits down

    def may_sit_beside(self, holder: Job, now: float) -> bool:
        return not self._holders.is_on(holder.id, now)

    def watch(self, view: View, offer: Offer) -> None:
        guest = view.jobs[offer.job_id]
        if offer.seating.is_throttled:
            self._watch(guest, view.now, guest.generation + 1)

    def watch_all(self, view: View) -> None:
        """Those who sit already."""
        self._unheard.clear()
        for guest in view.seated.values():
            if guest.seating and guest.seating.is_throttled:
                self._watch(guest, view.now, guest.generation)

    def _watch(self, guest: Job, now: float, generation: int) -> None:
        enough_s = UNKNOWN * self.patience_s
        if guest.alone and guest.alone.rate_hz > 0:
            enough_s = max(self.patience_s, STEPS / (self.least * guest.alone.rate_hz))
        heappush(self._unheard, (now + enough_s, now, guest.id, generation))

    # ---- who gets nothing

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
            if holder is None:  # who comes next has not kept it from anything yet
                heappush(self._unheard, (view.now + self.patience_s, view.now, job_id, generation))
            else:
                yield guest, holder, Reason(Code.STARVED_UNSEEN, (holder.id, span(view.now - since_s)))

    # ---- when to look again

    def has_news(self, view: View) -> bool:
        return self._holders.has_ended(view.now, lambda holder: holder not in view.running)

    @property
    def next_news_s(self) -> float:
        return self._holders.next_end_s

    @property
    def next_look_s(self) -> float:
        """When it may be time for somebody to leave, though nothing happens."""
        return self._unheard[0][0] if self._unheard else math.inf


def _is_heard_of(guest: Job) -> bool:
    return guest.measured is not None and guest.measured.generation == guest.generation
