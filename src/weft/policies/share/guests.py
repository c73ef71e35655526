"""weft's own sharing: peers that leave each other enough room are packed, all others fill what a holder leaves idle."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.sharing import Offer, Sharing
from weft.core.view import View
from weft.policies.order.classed import Classed
from weft.policies.share.filling import Filling, is_quiet
from weft.policies.share.looking import Looks
from weft.policies.share.packing import Packing, may_be_packed
from weft.policies.share.spots import Spot, pair_quietest, spots_without_guests, utilisation_of
from weft.policies.stages import NO_LANE, Turns


@dataclass
class Guests:
    """Two papers disagree here: Gandiva packs peers and measures, AntMan protects one of two. The classes decide.

    Peers are packed, as a probe, if together they ask for no more than `together` of a device. Whoever is not a peer of
    the holder, or asks for more, is held back so far that the holder hardly feels it.
    """

    classes: Classed
    packing: Packing = field(default_factory=Packing)
    filling: Filling = field(default_factory=Filling)
    together: float = 0.9
    looks: Looks = field(default_factory=Looks)

    def __post_init__(self) -> None:
        if not self.together >= 0:
            raise InputError(f"together {self.together:g} is not 0 or more", "0.9 is nine tenths of a device")

    def turns_of(self, job: Job, now: float) -> Turns:
        return NO_LANE

    def seat(self, view: View) -> Sharing:
        withdrawals, notes = self.packing.judged(view)
        offers = self._offers(view) if self.looks.is_due(view) else []
        return Sharing(offers, withdrawals, notes, self.looks.wake_at(view))

    def _offers(self, view: View) -> list[Offer]:
        guests = [job for job in view.jobs.values() if self.filling.may_sit(job)]
        spots = [spot for spot in spots_without_guests(view) if spot.holder.alone] if guests else []
        return pair_quietest(spots, guests, lambda spot, guest: self._offer(view, spot, guest))

    def _offer(self, view: View, spot: Spot, guest: Job) -> Offer | None:
        if not spot.has_room_for(view, guest):
            return None
        if self._are_to_be_packed(view, spot, guest):
            return self.packing.offer(spot, guest)
        return self.filling.offer(spot, guest) if is_quiet(spot.holder, self.filling.busy) else None

    def _are_peers(self, holder: Job, guest: Job) -> bool:
        is_anybody_guaranteed = self.classes.is_guaranteed(holder) or self.classes.is_guaranteed(guest)
        return not is_anybody_guaranteed and self.classes.standing(holder) == self.classes.standing(guest)

    def _are_to_be_packed(self, view: View, spot: Spot, guest: Job) -> bool:
        holder = spot.holder
        if not may_be_packed(guest) or not self._are_peers(holder, guest):
            return False
        wanted = utilisation_of(holder)[0] + utilisation_of(guest)[0]
        return wanted <= self.together and self.packing.may_try(view, spot, guest)
