"""Packing without measuring or holding back, for comparison: antman's seats, and nothing that protects the holder."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.core.job import Job
from weft.core.sharing import Offer
from weft.policies.order.fifo import Arrival
from weft.policies.order.quota import Classed
from weft.policies.policy import Policy
from weft.policies.share.candidates import Candidate
from weft.policies.share.mixed import Guests
from weft.policies.share.opportunistic import Filling


@dataclass
class Beside(Filling):
    def offer(self, spot: Candidate, guest: Job) -> Offer:
        offer = super().offer(spot, guest)
        return replace(offer, seating=replace(offer.seating, is_throttled=False))


def naive() -> Policy:
    order = Classed(Arrival(strict=False))
    return Policy(order, share=Guests(order, None, Beside(), has_lanes=False))
