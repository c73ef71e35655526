"""Packing without measuring or holding back, for comparison: antman's seats, and nothing that protects the holder."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.core.job import Job
from weft.core.sharing import Offer
from weft.policies.order.keyed import Fifo
from weft.policies.order.quota import QuotaClasses
from weft.policies.policy import Policy
from weft.policies.share.candidates import Candidate
from weft.policies.share.mixed import MixedSharing
from weft.policies.share.opportunistic import IdleFill


@dataclass
class Beside(IdleFill):
    def offer(self, candidate: Candidate, guest: Job) -> Offer:
        offer = super().offer(candidate, guest)
        return replace(offer, seating=replace(offer.seating, is_throttled=False))


def naive() -> Policy:
    order = QuotaClasses(Fifo(strict=False))
    return Policy(order, share=MixedSharing(order, None, Beside(), has_lanes=False))
