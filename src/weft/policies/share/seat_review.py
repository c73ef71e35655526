"""Which guests are judged again at this decision: those that a change may concern, not all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field

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
