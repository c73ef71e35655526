"""What to do, in the imperative. Commands are values, carry the generation of their lease, and are safe to repeat."""

from __future__ import annotations

from weft.core.reasons import Reason
from weft.core.value import value

Allocation = tuple[tuple[int, int], ...]
"""What a lease is for: (node index, bit mask of the node's devices), by node."""


@value
class Start:
    """Let the job run on these devices, as soon as the jobs that must leave them have left."""

    job_id: str
    generation: int
    allocation: Allocation
    reason: Reason
    lane: int = 0
    """The lane it is in on its devices; 0 for none."""
    base: int = 0
    weight: int = 1
    """The next turn of the lane goes to the member with the least base + weight × time used."""


@value
class Preempt:
    """Pause the job at its next step boundary and take its devices away."""

    job_id: str
    generation: int
    reason: Reason


@value
class Seating:
    """Where a guest is seated, and how it shares the devices."""

    allocation: Allocation
    lane: int = 0
    """The lane in which it takes turns; 0 for none: it computes at the same time as the others."""
    is_throttled: bool = False
    """Whether the node throttles it so that the holder runs as if alone."""
    base: int = 0
    weight: int = 1
    """The next turn of the lane goes to the member with the least base + weight × time used."""
    speed: float = 1.0
    """Its rate relative to running alone, measured or expected; its service is charged by that."""


@value
class Seat:
    """Let the job compute on these devices, which it does not hold, beside the job that does."""

    job_id: str
    generation: int
    seating: Seating
    reason: Reason


@value
class Unseat:
    """Pause the guest at its next step boundary: its seat is needed, or did not pay."""

    job_id: str
    generation: int
    reason: Reason


@value
class Tell:
    """No action: what was learnt about the job, recorded for `weft why`."""

    job_id: str
    reason: Reason


@value
class Stop:
    """End its attempt: the job was cancelled, or the node of other tasks of its gang is lost."""

    job_id: str
    generation: int


@value
class WakeAt:
    """Send `Woken` at this time; replaces every earlier request. Infinity means none."""

    time_s: float


Command = Start | Preempt | Seat | Unseat | Tell | Stop | WakeAt
