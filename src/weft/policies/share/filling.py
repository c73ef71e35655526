"""Opportunistic filling (AntMan): who waits uses what the holder of a device leaves idle, held back by the node."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.sharing import FILLED, LEAST_SPEED, Offer
from weft.policies.share.spots import Spot, utilisation_of


@dataclass
class Filling:
    """A guest needs a known memory, and a holder whose own utilisation was measured and is below `busy`."""

    busy: float = 0.8
    """AntMan's M: a device that is busier than this has nothing to give away."""
    guests: int = 1
    """How many at most beside one holder of their own size."""

    def __post_init__(self) -> None:
        if not 0 < self.busy <= 1 or self.guests < 1:
            raise InputError("filling takes a busy above 0 and up to 1, and at least 1 guest", "e.g. busy=0.8")

    def may_sit(self, job: Job) -> bool:
        return job.is_waiting and job.seating is None and job.spec.may_share and job.memory is not None

    def offer(self, spot: Spot, guest: Job) -> Offer:
        idle = 1.0 - utilisation_of(spot.holder)[0]
        speed = max(LEAST_SPEED, min(1.0, FILLED * idle / max(utilisation_of(guest)[0], 0.01)))
        seating = Seating(spot.allocation, is_throttled=True, speed=speed)
        return Offer(guest.id, seating, Reason(Code.OPPORTUNISTIC, (spot.holder.id,)))


def is_quiet(job: Job, busy: float) -> bool:
    return job.alone is not None and job.alone.utilisation < busy
