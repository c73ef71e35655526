"""What is wanted of an attempt, and how it stands."""

from __future__ import annotations

import enum

from weft.core.value import value
from weft.node.seat import HOLDER, Seat


class State(enum.Enum):
    WAITING = "waiting"  # nothing of it is on disk; its devices are not free yet
    LAUNCHING = "launching"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENDED = "ended"  # nothing of it lives


class Wanted(enum.Enum):
    NOTHING = "nothing"  # after a restart, until an order comes
    RUN = "run"
    PAUSE = "pause"
    STOP = "stop"


@value
class Order:
    wanted: Wanted
    generation: int
    devices: tuple[int, ...] = ()
    seat: Seat = HOLDER
    needs_bytes: int | None = None
    """What those who come need."""
    comers: frozenset[str] = frozenset()
    """Their ids. What they hold already while they pause is part of what they need."""
