"""What to do, in the imperative. Commands are values, carry the generation of their lease, and are safe to repeat."""

from __future__ import annotations

from weft.core.reasons import Reason
from weft.core.value import value

Allocation = tuple[tuple[int, int], ...]
"""What a lease is for: (node index, bit mask of the node's devices), by node."""


@value
class Start:
    """Let the job run on these devices, as soon as whoever was told to leave them has left."""

    job_id: str
    generation: int
    allocation: Allocation
    reason: Reason
    lane: int = 0
    """The lane of its devices that it is in; 0 for none."""
    base: int = 0
    weight: int = 1
    """Whose turn it is in the lane: whose base + weight × time used is the least."""


@value
class Preempt:
    """Pause the job at its next step boundary and take its devices away."""

    job_id: str
    generation: int
    reason: Reason


@value
class Seating:
    """How a guest sits: where, and under which rule beside the others there."""

    allocation: Allocation
    lane: int = 0
    """The lane of its devices whose members it takes turns with; 0 for none: it computes beside all others."""
    is_throttled: bool = False
    """Whether the node holds it back so far that the holder runs as if alone."""
    base: int = 0
    weight: int = 1
    """Whose turn it is in the lane: whose base + weight × time used is the least."""
    speed: float = 1.0
    """What part of its rate alone it is expected to have, or has as measured; its service is charged by that."""


@value
class Seat:
    """Let the job compute on these devices, which it does not hold, beside whoever does."""

    job_id: str
    generation: int
    seating: Seating
    reason: Reason


@value
class Unseat:
    """Pause the guest at its next step boundary: its seat is wanted, or was no good."""

    job_id: str
    generation: int
    reason: Reason


@value
class Tell:
    """Nothing is to be done: what was learnt of the job, to be kept for whoever asks."""

    job_id: str
    reason: Reason


@value
class Stop:
    """End its attempt: the job was cancelled, or the node of other tasks of its gang is lost."""

    job_id: str
    generation: int


@value
class WakeAt:
    """Send `Woken` at this time; replaces every earlier wish. Infinity means: no wish."""

    time_s: float


Command = Start | Preempt | Seat | Unseat | Tell | Stop | WakeAt
