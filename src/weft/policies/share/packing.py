"""Packing (Gandiva): two jobs on one device, measured, then kept or undone, and remembered for the next time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.gain import Gain, Outcome, Share, judge
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, Offer, Sharing, Withdrawal
from weft.core.view import View
from weft.policies.base import NO_LANE, Turns
from weft.policies.share.candidates import (
    Candidate,
    candidates_measured,
    candidates_without_guests,
    fitting,
    pair_quietest,
    side_by_side,
)
from weft.policies.share.seat_review import BackOffs, SearchTimer, SeatReview, seated_otherwise

TRIES = 3
"""So many comparisons that say nothing, and the pair is undone."""


@dataclass
class Packing:
    """Only jobs that have been measured alone are packed, those that keep a device least busy first.

    A probe is kept when the sum of both rates, each relative to its own alone, exceeds 1 by `margin`: then the two
    together do more than in turns. Both rates of a job are from one window of time, and what a sum is worth is decided
    by `core.gain`. It is looked at again with every new comparison, and ends when another job comes to hold the
    device. What is impossible or uncertain is measured again, `TRIES` times in all; then the pair is undone. A pair
    that was undone is left alone for `back_off_s`, twice as long each time.
    """

    margin: float = 0.05
    back_off_s: float = 600.0
    looks: SearchTimer = field(default_factory=SearchTimer)
    verdicts: Verdicts = field(init=False, repr=False)
    _review: SeatReview = field(default_factory=SeatReview, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.margin >= 0 or not self.back_off_s > 0:
            raise InputError("packing takes a margin of 0 or more and a back-off above 0", "e.g. margin=0.05")
        self.verdicts = Verdicts(self.back_off_s)

    def turns_of(self, job: Job, now: float) -> Turns:
        return NO_LANE

    def seat(self, view: View) -> Sharing:
        leaving, notes = self._rejudged(view)
        undone, kept = self.judged(view, {each.job_id for each in leaving})
        leaving += undone
        offers = self._probes(view) if self.looks.is_due(view, self.verdicts.is_retry_due(view)) else []
        wake_at = self.looks.wake_at(view, self.verdicts.retry_at_s, len(leaving))
        return Sharing(offers, leaving, [*notes, *kept], wake_at)

    # ---- what became of them

    def judged(self, view: View, leaving: Iterable[str] = ()) -> tuple[list[Withdrawal], list[Note]]:
        """The guests that are to leave, and notes on those that stay, by what has been measured since."""
        withdrawals: list[Withdrawal] = []
        notes: list[Note] = []
        gone = set(leaving)
        for candidate in candidates_measured(view) if view.seated else ():
            if gone.isdisjoint(guest.id for guest in candidate.guests):
                self._judge(candidate, view.now, withdrawals, notes)
        self.verdicts.forget(view)
        return withdrawals, notes

    def _judge(self, candidate: Candidate, now: float, withdrawals: list[Withdrawal], notes: list[Note]) -> None:
        packed = free_guests(candidate)
        together = (candidate.holder, *packed)
        shares = shares_of(together, candidate.members) if packed else []
        if not shares:
            return
        gain, guest = judge(shares, self.margin), packed[-1]
        if gain.outcome is Outcome.KEEP:
            if self.verdicts.keep(together):
                notes += kept(candidate, guest, gain)
        elif gain.outcome is Outcome.UNDO:
            self.verdicts.undo(together, now)
            withdrawals.append(Withdrawal(guest.id, undone(candidate, together, gain)))
        elif not self.verdicts.has_kept(together):
            self._doubt(candidate, together, gain, now, withdrawals, notes)

    def _doubt(
        self,
        candidate: Candidate,
        together: tuple[Job, ...],
        gain: Gain,
        now: float,
        withdrawals: list[Withdrawal],
        notes: list[Note],
    ) -> None:
        """The node compares them again by itself; what was kept before stays until it is known to be no good."""
        tries = self.verdicts.doubt(together)
        if tries is None:
            return
        if tries >= TRIES:
            self.verdicts.undo(together, now)
            withdrawals.append(Withdrawal(together[-1].id, Reason(Code.PACKED_GIVEN_UP, (candidate.holder.id, tries))))
        else:
            notes += doubted(candidate, together[-1], gain, tries)

    # ---- another job holds the device

    def _rejudged(self, view: View) -> tuple[list[Withdrawal], list[Note]]:
        """A guest beside another holder than it was packed with may stay if the two could be packed, too."""
        is_anew, candidates = self._review.look(view)
        found = seated_otherwise(view, is_packed) if is_anew else []
        leaving = {one.job_id: one for one in found}
        notes: list[Note] = []
        for candidate, guest in (
            (each, guest) for each in candidates for guest in each.guests if guest.id not in leaving
        ):
            if guest.is_starting(view.now):
                continue  # it does not compute yet, and is looked at again when it does
            if not is_beside(candidate, guest) or not self.may_try(view, candidate, guest):
                leaving[guest.id] = Withdrawal(guest.id, Reason(Code.NEW_HOLDER, (candidate.holder.id,)))
            elif candidate.holder.since_s == view.now:
                notes += probed(candidate, guest)
        return list(leaving.values()), notes

    # ---- new ones

    def _probes(self, view: View) -> list[Offer]:
        guests = [job for job in view.jobs.values() if may_be_packed(job)]
        candidates = (
            [candidate for candidate in candidates_without_guests(view) if candidate.holder.alone] if guests else []
        )

        def suits(candidate: Candidate, guest: Job) -> bool:
            return candidate.suits(view, guest) and self.may_try(view, candidate, guest)

        def offered(candidate: Candidate, guest: Job) -> Offer | None:
            return self.offer(candidate, guest) if candidate.has_room_for(view, guest) else None

        return pair_quietest(candidates, fitting(view, candidates, guests, side_by_side), suits, offered)

    def may_try(self, view: View, candidate: Candidate, job: Job) -> bool:
        here = view.devices_kind(candidate.allocation)
        if candidate.holder.alone_on != here or job.alone_on != here:
            return False  # how fast it is alone is known of another type only: nothing to compare with
        return self.verdicts.allow((candidate.holder, job), view.now)

    def offer(self, candidate: Candidate, guest: Job) -> Offer:
        return Offer(guest.id, Seating(candidate.allocation, speed=0.5), Reason(Code.PACKED, (candidate.holder.id,)))


def shares_of(packed: Iterable[Job], members: Iterable[Job]) -> list[Share]:
    """The rates of those packed, each relative to its own alone, with exactly the members of now.

    None of them until each has been compared so, in one window for all.
    """
    all_here, shares, windows = {job.id for job in members}, list[Share](), set[int]()
    for job in packed:
        measured = job.measured
        if measured is None or measured.error is None or set(measured.neighbours) != all_here - {job.id}:
            return []
        if measured.generation != job.generation:
            return []  # that was when they were together before
        ratio = measured.rate_hz / measured.alone_hz if measured.alone_hz else math.nan
        shares.append(Share(ratio, measured.error))
        windows.add(measured.window)
    return shares if len(windows) == 1 else []


def kept(candidate: Candidate, guest: Job, gain: Gain) -> list[Note]:
    numbers = (round(gain.total - 1.0, 3), round(gain.half_width, 3))
    code = Code.PACKED_KEPT_WITHIN if numbers[1] else Code.PACKED_KEPT
    return told_both(candidate, guest, code, *(numbers if numbers[1] else numbers[:1]))


def undone(candidate: Candidate, together: Iterable[Job], gain: Gain) -> Reason:
    steps = sum(job.measured.steps for job in together if job.measured)
    total, half_width = round(gain.total, 3), round(gain.half_width, 3)
    if not steps:
        return Reason(Code.PACKED_UNDONE, (candidate.holder.id, total))
    if not half_width:
        return Reason(Code.PACKED_UNDONE_AFTER, (candidate.holder.id, total, steps))
    return Reason(Code.PACKED_UNDONE_WITHIN, (candidate.holder.id, total, steps, half_width))


def doubted(candidate: Candidate, guest: Job, gain: Gain, tries: int) -> list[Note]:
    if not math.isfinite(gain.total):
        return told_both(candidate, guest, Code.PACKED_UNMEASURED, tries, TRIES)
    if gain.outcome is Outcome.IMPOSSIBLE:
        return told_both(candidate, guest, Code.PACKED_IMPOSSIBLE, round(gain.total, 3), tries, TRIES)
    numbers = (round(gain.total - 1.0, 3), round(gain.half_width, 3))
    return told_both(candidate, guest, Code.PACKED_UNSURE, *numbers, tries, TRIES)


def told_both(candidate: Candidate, guest: Job, code: Code, *numbers: float) -> list[Note]:
    return [
        Note(guest.id, Reason(code, (candidate.holder.id, *numbers))),
        Note(candidate.holder.id, Reason(code, (guest.id, *numbers))),
    ]


def probed(candidate: Candidate, guest: Job) -> list[Note]:
    """They are together because the holder came, not the guest."""
    return told_both(candidate, guest, Code.PACKED)


def is_packed(seating: Seating) -> bool:
    return not seating.is_throttled and not seating.lane


def free_guests(candidate: Candidate) -> list[Job]:
    """The guests that are not throttled."""
    return [guest for guest in candidate.guests if guest.seating and not guest.seating.is_throttled]


def is_beside(candidate: Candidate, guest: Job) -> bool:
    """Whether just the two of them are free, on the same devices."""
    return (
        free_guests(candidate) == [guest]
        and guest.seating is not None
        and guest.seating.allocation == candidate.allocation
    )


def may_be_packed(job: Job) -> bool:
    return job.is_waiting and job.seating is None and job.alone is not None and job.spec.may_share


# ---- What became of jobs that were packed, for the next time: of the very same ones, and of others like them.

Pair = frozenset[str]
Kind = tuple[tuple[tuple[str, str], ...], int, tuple[str, int]]
"""The tenants and names of the jobs, their gang size, and the kind of devices. The jobs of a sweep are of one kind."""

LEAST_KEPT = 64


@dataclass
class Verdicts:
    """A pair that was undone is left alone for `back_off_s`, twice as long each time, and so are others of its kind.

    One that was kept, should something else have parted it, may be packed again at once.
    """

    back_off_s: float
    _kept: set[Pair] = field(default_factory=set, init=False, repr=False)
    _doubts: dict[Pair, tuple[int, int]] = field(default_factory=dict, init=False, repr=False)
    """How often a pair was measured without a verdict, and in which window last."""
    _most_kept: int = field(default=LEAST_KEPT, init=False, repr=False)
    _pairs: BackOffs[Pair] = field(init=False, repr=False)
    _kinds: BackOffs[Kind] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pairs = BackOffs(self.back_off_s)
        self._kinds = BackOffs(self.back_off_s)

    def keep(self, jobs: Sequence[Job]) -> bool:
        """Whether that is news."""
        pair, kind = _pair(jobs), _kind(jobs)
        self._doubts.pop(pair, None)
        self._pairs.forgive(pair)
        if kind is not None:
            self._kinds.forgive(kind)
        is_news = pair not in self._kept
        self._kept.add(pair)
        return is_news

    def has_kept(self, jobs: Sequence[Job]) -> bool:
        return _pair(jobs) in self._kept

    def kept_with(self, job: Job) -> list[str]:
        """The jobs it was packed and kept with; some may be gone by now."""
        return sorted(other for pair in self._kept if job.id in pair for other in pair - {job.id})

    def undo(self, jobs: Sequence[Job], now: float) -> None:
        pair, kind = _pair(jobs), _kind(jobs)
        self._doubts.pop(pair, None)
        self._kept.discard(pair)
        self._pairs.begin(pair, now)
        if kind is not None:
            self._kinds.begin(kind, now)

    def doubt(self, jobs: Sequence[Job]) -> int | None:
        """How often they were measured without a verdict by now; None if this comparison was counted before."""
        pair, window = _pair(jobs), max((job.measured.window for job in jobs if job.measured), default=0)
        times, last_window = self._doubts.get(pair, (0, 0))
        if window and window == last_window:
            return None
        self._doubts[pair] = (times + 1, window)
        return times + 1

    def allow(self, jobs: Sequence[Job], now: float) -> bool:
        """What is known of a pair itself counts; of one that was never tried, what is known of its kind."""
        pair = _pair(jobs)
        if pair in self._kept:
            return True
        if self._pairs.is_known(pair):
            return not self._pairs.is_on(pair, now)
        kind = _kind(jobs)
        return kind is None or not self._kinds.is_on(kind, now)

    def is_retry_due(self, view: View) -> bool:
        """Whether a back-off has ended since this was last asked, of two that are both still there, or of a kind."""
        live = view.jobs.keys()
        pairs = self._pairs.has_ended(view.now, lambda pair: not pair <= live)
        return self._kinds.has_ended(view.now, lambda kind: False) or pairs

    @property
    def retry_at_s(self) -> float:
        """When the next back-off ends, as far as was known when last asked whether one has."""
        return min(self._pairs.next_end_s, self._kinds.next_end_s)

    def forget(self, view: View) -> None:
        """Of pairs that are gone; not looked for until there are twice as many as were left the last time."""
        if len(self._kept) + len(self._doubts) > self._most_kept:
            self._kept = {pair for pair in self._kept if pair <= view.jobs.keys()}
            self._doubts = {pair: doubt for pair, doubt in self._doubts.items() if pair <= view.jobs.keys()}
            self._most_kept = 2 * (len(self._kept) + len(self._doubts)) + LEAST_KEPT


def _pair(jobs: Sequence[Job]) -> Pair:
    return frozenset(job.id for job in jobs)


def _kind(jobs: Sequence[Job]) -> Kind | None:
    """None if one of them has no name: then there are no others like it."""
    if not all(job.spec.model for job in jobs):
        return None
    names = tuple(sorted((job.tenant, job.spec.model) for job in jobs))
    return names, jobs[0].gang_size, jobs[0].alone_on
