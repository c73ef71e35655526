"""Packing probes (Gandiva): put two jobs on one device, measure what becomes of both, keep it or undo it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, Offer, Sharing, Withdrawal
from weft.core.view import View
from weft.policies.share.looking import Looks
from weft.policies.share.spots import (
    Spot,
    pair_quietest,
    spots_measured,
    spots_without_guests,
)
from weft.policies.stages import NO_LANE, Turns

Pair = frozenset[str]


@dataclass
class Verdict:
    """What became of a pair."""

    gain: float
    retry_at_s: float
    tries: int = 1

    @property
    def is_kept(self) -> bool:
        """It paid: should something else have parted them, they may be packed again at once."""
        return self.retry_at_s == math.inf


@dataclass
class Packing:
    """Only jobs that have been measured alone are packed, those that keep a device least busy first.

    A probe is kept when the sum of both rates, each relative to its own alone, exceeds 1 by `margin`: then the two
    together do more than in turns. It is looked at again with every new measure. A pair that was undone is left alone
    for `back_off_s`, twice as long each time.
    """

    margin: float = 0.05
    back_off_s: float = 600.0
    looks: Looks = field(default_factory=Looks)
    verdicts: dict[Pair, Verdict] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.margin >= 0 or not self.back_off_s > 0:
            raise InputError("packing takes a margin of 0 or more and a back-off above 0", "e.g. margin=0.05")

    def turns_of(self, job: Job, now: float) -> Turns:
        return NO_LANE

    def seat(self, view: View) -> Sharing:
        withdrawals, notes = self.judged(view)
        offers = self._probes(view) if self.looks.is_due(view) else []
        return Sharing(offers, withdrawals, notes, self.looks.wake_at(view))

    # ---- what became of them

    def judged(self, view: View) -> tuple[list[Withdrawal], list[Note]]:
        """Who is to leave, and what is to be said of those who stay, by what has been measured since."""
        withdrawals: list[Withdrawal] = []
        notes: list[Note] = []
        for spot in spots_measured(view) if view.seated else ():
            self._judge(spot, view.now, withdrawals, notes)
        self._forget(view)
        return withdrawals, notes

    def _judge(self, spot: Spot, now: float, withdrawals: list[Withdrawal], notes: list[Note]) -> None:
        packed = [guest for guest in spot.guests if guest.seating and not guest.seating.is_throttled]
        total = total_of(spot.members) if packed else None
        if total is None:
            return
        pair = frozenset(job.id for job in spot.members)
        before = self.verdicts.get(pair)
        if total > 1.0 + self.margin:
            if before is None or not before.is_kept:
                notes += kept(spot, packed[-1], total)
            self.verdicts[pair] = Verdict(total, math.inf)
        else:
            tries = before.tries + 1 if before and not before.is_kept else 1
            self.verdicts[pair] = Verdict(total, now + self.back_off_s * 2.0 ** (tries - 1), tries)
            reason = Reason(Code.PACKED_UNDONE, (spot.holder.id, round(total, 3)))
            withdrawals.append(Withdrawal(packed[-1].id, reason))

    def _forget(self, view: View) -> None:
        if len(self.verdicts) > 4 * len(view.jobs) + 64:
            live = view.jobs.keys()
            self.verdicts = {pair: said for pair, said in self.verdicts.items() if pair <= live}

    # ---- new ones

    def _probes(self, view: View) -> list[Offer]:
        guests = [job for job in view.jobs.values() if may_be_packed(job)]
        spots = [spot for spot in spots_without_guests(view) if spot.holder.alone] if guests else []

        def offered(spot: Spot, guest: Job) -> Offer | None:
            may_sit = self.may_try(view, spot, guest) and spot.has_room_for(view, guest)
            return self.offer(spot, guest) if may_sit else None

        return pair_quietest(spots, guests, offered)

    def may_try(self, view: View, spot: Spot, job: Job) -> bool:
        here = view.ledger.devices.kind_of(spot.allocation)
        if spot.holder.alone_on != here or job.alone_on != here:
            return False  # how fast it is alone is known of another type only: nothing to compare with
        said = self.verdicts.get(frozenset((spot.holder.id, job.id)))
        return said is None or said.is_kept or said.retry_at_s <= view.now

    def offer(self, spot: Spot, guest: Job) -> Offer:
        return Offer(guest.id, Seating(spot.allocation, speed=0.5), Reason(Code.PACKED, (spot.holder.id,)))


def total_of(members: Iterable[Job]) -> float | None:
    """The sum of the rates together, each relative to its own alone; None until all have been measured together."""
    jobs = list(members)
    total = 0.0
    for job in jobs:
        beside = {other.id for other in jobs if other is not job}
        if job.alone is None or job.measured is None or set(job.measured.neighbours) != beside:
            return None
        if job.seating and job.measured.generation != job.generation:
            return None  # that was when it sat here before
        total += job.measured.rate_hz / job.alone.rate_hz
    return total


def kept(spot: Spot, guest: Job, total: float) -> list[Note]:
    gain = round(total - 1.0, 3)
    return [
        Note(guest.id, Reason(Code.PACKED_KEPT, (spot.holder.id, gain))),
        Note(spot.holder.id, Reason(Code.PACKED_KEPT, (guest.id, gain))),
    ]


def may_be_packed(job: Job) -> bool:
    return job.is_waiting and job.seating is None and job.alone is not None and job.spec.may_share
