"""A lane for the guests of one holder: they take turns, so that it feels one at a time however many they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from weft.core.commands import Seating
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import FILLED, LEAST_SPEED, Offer, devices_of, fits, seated_lane
from weft.core.view import View
from weft.policies.share.lanes import MOST_MEMBERS
from weft.policies.share.spots import Spot, utilisation_of


@dataclass(frozen=True)
class GuestLane:
    """Its members need ΣP + max T instead of Σ(P + T), and use up what one of them alone would leave idle.

    Whoever holds the device is in no lane with them, and waits for nobody's turn, nor does who is packed with it. Only
    quiet jobs join: all on the device must ask for no more than `together` of it.
    """

    together: float = 0.9

    def offer(self, view: View, spot: Spot, guest: Job) -> Offer | None:
        """A place beside those who sit there, held back like them."""
        members = (*spot.members, guest)
        if not self._is_open(spot) or guest.gang_size > 1 or not guest.spec.may_share or len(members) > MOST_MEMBERS:
            return None
        if not guest.spec.allows(view.nodes[spot.allocation[0][0]].device_type):
            return None
        if sum(utilisation_of(member)[0] for member in members) > self.together:
            return None
        lane = lane_of(spot)
        free = [(member, seated_lane(member)) for member in spot.guests if not is_held_back(member)]
        in_turn = [(member, lane) for member in (*held_back(spot), guest)]
        together = [(spot.holder, spot.holder.lane), *free, *in_turn]
        if not all(fits(view.ledger, device, together) for device in devices_of(spot.allocation)):
            return None
        return _offer(spot, guest, lane, (*held_back(spot), guest))

    def moved(self, spot: Spot, restless: Sequence[Job], joining: Iterable[Job] = ()) -> list[Offer]:
        """These of its guests are to take turns with the others, and with whoever joins them."""
        in_turn = (*(one for one in spot.guests if is_held_back(one) or one in restless), *joining)
        return [_offer(spot, guest, lane_of(spot), in_turn) for guest in restless]

    def _is_open(self, spot: Spot) -> bool:
        is_theirs = all(guest.seating and guest.seating.allocation == spot.allocation for guest in spot.guests)
        return bool(spot.guests) and is_theirs and spot.holder.gang_size == 1


def is_held_back(guest: Job) -> bool:
    return guest.seating is not None and guest.seating.is_throttled


def held_back(spot: Spot) -> list[Job]:
    return [guest for guest in spot.guests if is_held_back(guest)]


def lane_of(spot: Spot) -> int:
    """The one in which guests take turns, or else one in which nobody is."""
    used = {spot.holder.lane, *(seated_lane(guest) for guest in spot.guests if not is_held_back(guest))}
    lanes = {seated_lane(guest) for guest in held_back(spot)} - used - {0}
    return min(lanes, default=next(lane for lane in count(1) if lane not in used))


def _offer(spot: Spot, guest: Job, lane: int, in_turn: Sequence[Job]) -> Offer:
    """A place among all who are to take turns, the guest one of them: they share what the rest leave idle."""
    others = [one.id for one in held_back(spot) if one is not guest]
    free = [one for one in spot.members if one not in in_turn]
    idle = max(0.0, 1.0 - sum(utilisation_of(one)[0] for one in free))
    speed = max(LEAST_SPEED, min(1.0, FILLED * idle / len(in_turn) / max(utilisation_of(guest)[0], 0.01)))
    seating = Seating(spot.allocation, lane, is_throttled=True, speed=speed)
    code = Code.JOINED_LANE if others else Code.OPENED_LANE
    return Offer(guest.id, seating, Reason(code, (lane, ", ".join((others or [spot.holder.id])[:3]))))
