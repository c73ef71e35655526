"""How `weft` shares devices: peers are packed, all other guests use what a holder leaves idle."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import Device, Note, Offer, Sharing, Withdrawal, devices_of, seated_lane
from weft.core.view import View
from weft.policies.base import NO_LANE, Turns
from weft.policies.order.quota import QuotaClasses
from weft.policies.share.candidates import (
    Candidate,
    candidates_with_guests,
    candidates_without_guests,
    fitting,
    guests_beside,
    in_turn,
    pair_parts,
    pair_quietest,
    side_by_side,
    utilisation_of,
)
from weft.policies.share.first_seats import FirstSeats
from weft.policies.share.lanes import GuestLane, held_back, lane_of
from weft.policies.share.opportunistic import IdleFill, SeatEffects, StarvationGuard, is_quiet
from weft.policies.share.packing import Packing, free_guests, is_beside, probed
from weft.policies.share.seat_review import SearchTimer, SeatReview, granted


@dataclass
class MixedSharing:
    """Two papers disagree here: Gandiva packs peers and measures, AntMan protects one of two. The classes decide.

    Peers are packed, as a probe, if together they ask for no more than `together` of a device. A job that is not a peer
    of the holder, or asks for more, is held back so far that the holder hardly feels it, and further ones take turns
    with it in a lane. Without `packing` no job has peers, and without lanes each guest computes by itself: AntMan.
    """

    classes: QuotaClasses
    packing: Packing | None = field(default_factory=Packing)
    filling: IdleFill = field(default_factory=IdleFill)
    together: float = 1.4
    """Two that ask for more could hardly do more than in turns, and each try costs both of them."""
    has_lanes: bool = True
    looks: SearchTimer = field(default_factory=SearchTimer)
    starving: StarvationGuard = field(default_factory=StarvationGuard)
    effects: SeatEffects = field(default_factory=SeatEffects)
    first: FirstSeats | None = None
    """Seats for newcomers; without it they wait for devices of their own."""
    _review: SeatReview = field(default_factory=SeatReview, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.together >= 0:
            raise InputError(f"together {self.together:g} is not 0 or more", "the default is 1.4")
        self.lane = GuestLane()

    def turns_of(self, job: Job, now: float) -> Turns:
        return NO_LANE

    def seat(self, view: View) -> Sharing:
        again = self._rejudged(view)
        leaving = {each.job_id: each for each in again.withdrawals}
        spared = self.first.seated(view) if self.first else []  # they are together for a while, whatever comes of it
        undone, kept = self.packing.judged(view, [*leaving, *spared]) if self.packing else ([], [])
        for each in (*undone, *self.starving.withdrawn(view)):
            leaving.setdefault(each.job_id, each)
        offers = [*again.offers]
        if self.first:
            leaving |= {each.job_id: each for each in self.first.withdrawn(view, leaving)}
            offers += self.first.offers(view, self._are_peers, leaving)
        if self.looks.is_due(view, self._has_news(view)):
            offers += self._offers(view, leaving, offers)
            offers += self._turns(view, leaving, {offer.job_id for offer in offers})
        else:
            offers += self._reunited(view, _devices_of(offers))
        for offer in offers:
            self.starving.watch(view, offer)
            if view.jobs[offer.job_id].seating and offer.job_id not in leaving:
                leaving[offer.job_id] = Withdrawal(offer.job_id, offer.reason)
        staying = sum(offer.job_id in leaving for offer in offers)
        wake_at = self.looks.wake_at(view, self._news_at_s, len(leaving) - staying)
        notes = [*again.notes, *kept, *self.effects.notes(view, leaving)]
        first_over_s = self.first.wake_at(view) if self.first else math.inf
        return Sharing(offers, list(leaving.values()), notes, min(wake_at, first_over_s, self.starving.next_look_s))

    # ---- guests whose holder has changed

    def _rejudged(self, view: View) -> Sharing:
        """No holder that goes before its guest, or was not yet measured beside it, has a guest that is not throttled.

        A guest that cannot stay as it sits is throttled from now on if there is idle time to fill, or else leaves.
        """
        is_anew, candidates = self._review.look(view, self.classes.charged.keys())
        if is_anew:
            self.starving.watch_all(view)
        withdrawals, offers, notes = list[Withdrawal](), list[Offer](), list[Note]()
        for candidate in candidates:
            restless = [guest for guest in candidate.guests if not self._may_stay(view, candidate, guest)]
            offers += self._held_back(view, candidate, restless)
            withdrawals += [Withdrawal(guest.id, self._why_not(candidate.holder, guest)) for guest in restless]
            if candidate.holder.since_s == view.now:
                notes += [
                    note for one in candidate.guests if one not in restless for note in self._told(candidate, one)
                ]
        return Sharing(offers, list({each.job_id: each for each in withdrawals}.values()), notes)

    def _may_stay(self, view: View, candidate: Candidate, guest: Job) -> bool:
        assert guest.seating is not None
        lane = guest.seating.lane
        if guest.seating.is_throttled:
            return lane == 0 or (self.has_lanes and lane != candidate.holder.lane)
        if guest.is_starting(view.now) and not self.classes.is_guaranteed(candidate.holder):
            return True  # it does not compute yet, and is looked at again when it does
        if self.first and not lane and self.first.is_new(guest, view.now) and self._are_peers(candidate.holder, guest):
            return True
        if lane or self._goes_before(candidate.holder, guest) or not is_beside(candidate, guest):
            return False
        return self._may_be_paired(view, candidate, guest)

    def _held_back(self, view: View, candidate: Candidate, restless: Sequence[Job]) -> list[Offer]:
        """Their new seats, if the device has memory for all its guests then."""
        is_theirs = all(
            guest.seating and guest.seating.allocation == candidate.allocation for guest in candidate.guests
        )
        if not restless or not is_theirs or not self._has_idle_time(view, candidate.holder):
            return []
        if len(candidate.guests) == 1:
            offers = [self.filling.offer(candidate, guest) for guest in restless]
        else:
            offers = self.lane.moved(candidate, restless) if self.has_lanes else []
        lanes = {guest.id: seated_lane(guest) for guest in candidate.guests} | {
            one.job_id: one.seating.lane for one in offers
        }
        together = [
            (candidate.holder, candidate.holder.lane),
            *((guest, lanes[guest.id]) for guest in candidate.guests),
        ]
        return offers if all(view.fits(device, together) for device in devices_of(candidate.allocation)) else []

    def _why_not(self, holder: Job, guest: Job) -> Reason:
        if guest.seating and guest.seating.is_throttled:
            return Reason(Code.SEAT_TAKEN, (holder.id,))  # they would be in one lane
        return Reason(Code.NOT_A_PEER if self._goes_before(holder, guest) else Code.NEW_HOLDER, (holder.id,))

    def _told(self, candidate: Candidate, guest: Job) -> list[Note]:
        """Only of two that are probed."""
        return probed(candidate, guest) if is_beside(candidate, guest) and guest.alone else []

    # ---- new ones

    def _offers(self, view: View, leaving: Container[str], made: Sequence[Offer]) -> list[Offer]:
        """Beside those that are made already: no other job gets a seat where newcomers do."""
        seated, taken = {offer.job_id for offer in made}, _devices_of(made)
        guests = [job for job in view.jobs.values() if self._may_sit(job) and job.id not in seated]
        if not guests:
            return []
        candidates = candidates_without_guests(view, taken)
        if self.filling.guests > 1:
            candidates += [
                candidate for candidate in _settled(view, leaving) if len(candidate.guests) < self.filling.guests
            ]
        able = [
            candidate for candidate in candidates if candidate.holder.alone and self._may_host(view, candidate.holder)
        ]
        offers = pair_quietest(
            able,
            fitting(view, able, guests, side_by_side),
            lambda candidate, guest: self._suits(view, candidate, guest),
            lambda candidate, guest: self._offer(view, candidate, guest),
        )
        return offers + self._parts(view, guests, [*made, *offers])

    def _reunited(self, view: View, taken: Set[Device]) -> list[Offer]:
        """Jobs whose packing was kept are together again as soon as one of them is granted devices: when the guest of
        two comes to go first, both compute on, and no look has to be due."""
        offers: dict[str, Offer] = {}
        for candidate in (Candidate(holder) for holder in granted(view) if not guests_beside(view, holder)):
            if not taken.isdisjoint(devices_of(candidate.allocation)):
                continue
            guest = next((one for one in self._kept_with(view, candidate) if one.id not in offers), None)
            if self.packing and guest:
                offers[guest.id] = self.packing.offer(candidate, guest)
        return list(offers.values())

    def _kept_with(self, view: View, candidate: Candidate) -> Iterator[Job]:
        known = self.packing.verdicts.kept_with(candidate.holder) if self.packing else ()
        for guest in (view.jobs[each] for each in known if each in view.jobs):
            if (
                self._may_sit(guest)
                and self._may_be_packed(view, candidate, guest)
                and candidate.has_room_for(view, guest)
            ):
                yield guest

    def _parts(self, view: View, guests: Sequence[Job], offers: Sequence[Offer]) -> list[Offer]:
        """A job without a holder of its own size fills what a larger gang leaves idle of some of its devices."""
        seated = {offer.job_id for offer in offers}
        taken = _devices_of(offers)

        def may_host(holder: Job) -> bool:
            return taken.isdisjoint(devices_of(holder.allocation)) and self._has_idle_time(view, holder)

        def offered(candidate: Candidate, guest: Job) -> Offer | None:
            return self.filling.offer(candidate, guest) if candidate.has_room_for(view, guest) else None

        return pair_parts(view, [job for job in guests if job.id not in seated], may_host, offered)

    def _may_sit(self, job: Job) -> bool:
        return self.filling.may_sit(job) and self.classes.may_sit(job)

    def _may_host(self, view: View, holder: Job) -> bool:
        """Whether any job could sit beside it."""
        has_peers = self.packing is not None and not self.classes.is_guaranteed(holder)
        return has_peers or self._has_idle_time(view, holder)

    def _suits(self, view: View, candidate: Candidate, guest: Job) -> bool:
        may_sit = self._has_idle_time(view, candidate.holder) or self._may_be_packed(view, candidate, guest)
        return may_sit and candidate.suits(view, guest)

    def _may_be_packed(self, view: View, candidate: Candidate, guest: Job) -> bool:
        return self._are_peers(candidate.holder, guest) and self._may_be_paired(view, candidate, guest)

    def _offer(self, view: View, candidate: Candidate, guest: Job) -> Offer | None:
        if not candidate.has_room_for(view, guest):
            return None
        if self.packing and self._may_be_packed(view, candidate, guest):
            return self.packing.offer(candidate, guest)
        return self.filling.offer(candidate, guest)

    def _turns(self, view: View, leaving: Container[str], taken: Container[str]) -> list[Offer]:
        """A job that is offered no seat of its own beside a holder may take turns with guests that have one."""
        if not self.has_lanes or not view.guests:
            return []
        able = (job for job in view.jobs.values() if self._may_sit(job) and job.id not in taken)
        guests = [job for job in able if utilisation_of(job)[0] < self.lane.together]
        candidates = {
            candidate.allocation: candidate
            for candidate in (_settled(view, leaving) if guests else [])
            if self._has_idle_time(view, candidate.holder) and self._is_settled(candidate)
        }
        joining = pair_quietest(
            candidates.values(),
            fitting(view, candidates.values(), guests, in_turn),
            lambda candidate, guest: candidate.suits(view, guest),
            lambda candidate, guest: self.lane.offer(view, candidate, guest),
        )
        return joining + [
            moved for one in joining for moved in self._moved(candidates[one.seating.allocation], view.jobs[one.job_id])
        ]

    def _moved(self, candidate: Candidate, joining: Job) -> list[Offer]:
        """The throttled guests there that are not in the lane yet."""
        elsewhere = [guest for guest in held_back(candidate) if seated_lane(guest) != lane_of(candidate)]
        return self.lane.moved(candidate, elsewhere, [joining])

    def _is_settled(self, candidate: Candidate) -> bool:
        """A probe is not disturbed."""
        free = free_guests(candidate)
        return not free or (self.packing is not None and self.packing.verdicts.has_kept((candidate.holder, *free)))

    # ---- peers

    def _goes_before(self, holder: Job, guest: Job) -> bool:
        """Whether a holder has a right to feel nothing of this guest."""
        return self.classes.is_guaranteed(holder) or self.classes.class_rank(holder) < self.classes.class_rank(guest)

    def _are_peers(self, holder: Job, guest: Job) -> bool:
        is_anybody_guaranteed = self.classes.is_guaranteed(holder) or self.classes.is_guaranteed(guest)
        return not is_anybody_guaranteed and self.classes.class_rank(holder) == self.classes.class_rank(guest)

    def _may_be_paired(self, view: View, candidate: Candidate, guest: Job) -> bool:
        wanted = utilisation_of(candidate.holder)[0] + utilisation_of(guest)[0]
        return self.packing is not None and wanted <= self.together and self.packing.may_try(view, candidate, guest)

    def _has_idle_time(self, view: View, holder: Job) -> bool:
        return is_quiet(holder, self.filling.busy) and self.starving.may_sit_beside(holder, view.now)

    # ---- when to look again

    def _has_news(self, view: View) -> bool:
        is_retry_due = self.packing is not None and self.packing.verdicts.is_retry_due(view)
        return self.starving.has_news(view) or is_retry_due

    @property
    def _news_at_s(self) -> float:
        retry_at_s = self.packing.verdicts.retry_at_s if self.packing else self.starving.next_news_s
        return min(retry_at_s, self.starving.next_news_s)


def _devices_of(offers: Iterable[Offer]) -> set[Device]:
    return {device for offer in offers for device in devices_of(offer.seating.allocation)}


def _settled(view: View, leaving: Container[str]) -> list[Candidate]:
    """Those with guests, all of which stay."""
    return [
        candidate
        for candidate in candidates_with_guests(view)
        if not any(guest.id in leaving for guest in candidate.guests)
    ]
