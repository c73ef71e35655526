"""When guests are looked at: those judged again at a decision, how long a failed placement is not repeated, and when to
look for new guests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Set
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Generic, TypeVar

from weft.core.commands import Seating
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Withdrawal
from weft.core.view import View
from weft.policies.share.candidates import Candidate, candidates_with_guests, guests_beside, holder_of_seat


@dataclass
class SeatReview:
    """Only devices with guests are visited, and all of them only when changes may be missing."""

    _version: int = field(default=-1, init=False, repr=False)
    _charged: frozenset[str] = field(default=frozenset(), init=False, repr=False)

    def look(self, view: View, charged: Set[str] = frozenset()) -> tuple[bool, list[Candidate]]:
        """Whether seats may be of another policy, and where guests sit beside a holder that came this instant, or have
        started up: until then they may stay beside any holder.

        These are all candidates if seats may be of another policy, or if the set of guaranteed jobs has changed.
        """
        is_anew, has_charged = view.version != self._version, charged != self._charged
        self._version = view.version
        if has_charged:
            self._charged = frozenset(charged)
        if not view.guests:
            return is_anew, []
        if is_anew or has_charged:
            return is_anew, candidates_with_guests(view)
        found = {
            candidate.holder.id: candidate for candidate in (*candidates_granted(view), *_candidates_started_up(view))
        }
        return is_anew, list(found.values())


def candidates_granted(view: View) -> Iterator[Candidate]:
    """Those whose devices were granted to their holder this instant, beside guests that sat there before."""
    for job in granted(view):
        guests = guests_beside(view, job)
        if guests:
            yield Candidate(job, guests)


def _candidates_started_up(view: View) -> Iterator[Candidate]:
    for change, guest in view.changes:
        if change is Change.STARTUP and guest.seating and not guest.is_starting(view.now):
            holder = holder_of_seat(view, guest)
            if holder is not None:
                yield Candidate(holder, guests_beside(view, holder))


def granted(view: View) -> Iterator[Job]:
    """The jobs that were granted their devices this instant."""
    for job in view.last_granted():
        if job.since_s < view.now:
            return  # they stand in the order they were granted devices
        yield job


def seated_otherwise(view: View, is_ours: Callable[[Seating], bool]) -> list[Withdrawal]:
    """Guests that sit by a rule that this policy does not have: another one seated them."""
    reason = Reason(Code.SEATED_OTHERWISE)
    return [Withdrawal(job.id, reason) for job in view.seated.values() if job.seating and not is_ours(job.seating)]


# ---- How long what did not pay is not tried again.

MOST_DOUBLED = 20

K = TypeVar("K", bound=Hashable)


@dataclass
class BackOffs(Generic[K]):
    """The first one of each takes `first_s`, every further one twice as long as the one before.

    Only so many are remembered: the one that began first is forgotten first.
    """

    first_s: float
    most: int = 4096
    _until: dict[K, tuple[float, int]] = field(default_factory=dict, init=False, repr=False)
    """When it ends, and how many there have been."""
    _ends: list[tuple[float, int, K]] = field(default_factory=list, init=False, repr=False)
    """A heap; by number where two end at once, since keys have no order."""
    _begun: int = field(default=0, init=False, repr=False)

    def begin(self, key: K, now: float) -> None:
        """Unless one is on: then it is the same failure once more."""
        until_s, times = self._until.pop(key, (now, 0))
        if until_s <= now:
            until_s, times = now + self.first_s * 2.0 ** min(times, MOST_DOUBLED), times + 1
            self._begun += 1
            heappush(self._ends, (until_s, self._begun, key))
        self._until[key] = (until_s, times)
        if len(self._until) > self.most:
            del self._until[next(iter(self._until))]

    def forgive(self, key: K) -> None:
        """It has paid after all."""
        self._until.pop(key, None)

    def is_known(self, key: K) -> bool:
        return key in self._until

    def is_on(self, key: K, now: float) -> bool:
        return key in self._until and self._until[key][0] > now

    def has_ended(self, now: float, is_gone: Callable[[K], bool]) -> bool:
        """Whether one has ended since this was last asked, of those that still concern a live job."""
        has_ended = False
        while self._ends:
            until_s, _, key = self._ends[0]
            is_void = self._until.get(key, (math.inf, 0))[0] != until_s or is_gone(key)
            if until_s > now and not is_void:
                break
            has_ended = has_ended or not is_void
            heappop(self._ends)
        return has_ended

    @property
    def next_end_s(self) -> float:
        """As far as was known when last asked whether one has ended."""
        return self._ends[0][0] if self._ends else math.inf


# ---- When to look for new guests: not at every decision, and not while nothing has happened.


@dataclass
class SearchTimer:
    every_s: float = 15.0
    _next_s: float = field(default=-math.inf, init=False, repr=False)
    _has_news: bool = field(default=True, init=False, repr=False)

    def is_due(self, view: View, is_there_news: bool = False) -> bool:
        """Whether to look now; then the next look is some time away. What has changed for jobs is news in any case."""
        self._has_news = self._has_news or is_there_news or bool(view.changes)
        if not self._has_news or view.jobs_waiting <= len(view.seated) or view.now < self._next_s:
            return False
        self._next_s, self._has_news = view.now + self.every_s, False
        return True

    def wake_at(self, view: View, news_at_s: float = math.inf, leaving: int = 0) -> float:
        """When to look though nothing happens: news came too soon after the last look, or comes by itself later on.

        So many guests are about to leave: from the next look on others may have their seats, and they may have others.
        """
        if view.jobs_waiting <= len(view.seated) - leaving:
            return math.inf
        if leaving or self._has_news:
            return self._next_s if self._next_s > view.now else view.now + self.every_s
        return max(self._next_s, news_at_s)
