"""Opportunistic filling (AntMan): who waits uses what the holder of a device leaves idle, held back by the node."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import FILLED, Offer, Sharing
from weft.core.view import View
from weft.policies.share.looking import Looks
from weft.policies.share.spots import Spot, pair_quietest, spots_with_guests, spots_without_guests, utilisation_of
from weft.policies.stages import NO_LANE, Turns


@dataclass
class Filling:
    """A guest needs a known memory, and a holder whose own utilisation was measured and is below `busy`."""

    busy: float = 0.8
    """AntMan's M: a device that is busier than this has nothing to give away."""
    guests: int = 1
    """How many at most beside one holder of their own size."""
    looks: Looks = field(default_factory=Looks)

    def __post_init__(self) -> None:
        if not 0 < self.busy <= 1 or self.guests < 1:
            raise InputError("filling takes a busy above 0 and up to 1, and at least 1 guest", "e.g. busy=0.8")

    def turns_of(self, job: Job, now: float) -> Turns:
        return NO_LANE

    def seat(self, view: View) -> Sharing:
        offers = self._offers(view) if self.looks.is_due(view) else []
        return Sharing(offers, wake_at=self.looks.wake_at(view))

    def _offers(self, view: View) -> list[Offer]:
        guests = [job for job in view.jobs.values() if self.may_sit(job)]

        def offered(spot: Spot, guest: Job) -> Offer | None:
            return self.offer(spot, guest) if spot.has_room_for(view, guest) else None

        return pair_quietest(self._spots(view) if guests else (), guests, offered)

    def may_sit(self, job: Job) -> bool:
        return job.is_waiting and job.seating is None and job.memory is not None

    def _spots(self, view: View) -> list[Spot]:
        spots = spots_without_guests(view) + (spots_with_guests(view) if self.guests > 1 else [])
        return [spot for spot in spots if is_quiet(spot.holder, self.busy) and len(spot.guests) < self.guests]

    def offer(self, spot: Spot, guest: Job) -> Offer:
        idle = 1.0 - utilisation_of(spot.holder)[0]
        speed = max(0.01, min(1.0, FILLED * idle / max(utilisation_of(guest)[0], 0.01)))
        seating = Seating(spot.allocation, is_throttled=True, speed=speed)
        return Offer(guest.id, seating, Reason(Code.OPPORTUNISTIC, (spot.holder.id,)))


def is_quiet(job: Job, busy: float) -> bool:
    return job.alone is not None and job.alone.utilisation < busy
