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


@value
class Preempt:
    """Pause the job at its next step boundary and take its devices away."""

    job_id: str
    generation: int
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


Command = Start | Preempt | Stop | WakeAt
