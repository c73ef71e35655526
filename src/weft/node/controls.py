"""What the controller is told of a device's holder and guests, and what it says to do."""

from __future__ import annotations

from weft.core.value import value

LEARNING, RESTING, SHARING = "learning", "resting", "sharing"
NO_ROOM = "no room"
"""Why guests stand still, or do not; the last one is about one of them."""


@value
class Guest:
    """One guest since the last sample. `is_quiet`: it stands at a boundary, or has ended. T unknown: None."""

    job_id: str
    is_quiet: bool
    persistent_bytes: int = 0
    ephemeral_bytes: int | None = 0
    is_idle: bool = False
    """It is in the kernel's idle class, or weighs next to nothing beside the holder."""
    progress: float | None = None
    """Share of its own full speed, of late; None: nothing new is known."""
    devices: frozenset[int] = frozenset({0})
    """On which of them it sits: beside a gang it may be a part."""
    lane: int = 0
    """Which of the devices' lanes it is in; 0: none."""


@value
class Sample:
    """What was seen since the last one: the holder's steps that ended, what memory it needs (P + T), its guests."""

    durations_s: tuple[float, ...]
    waited_s: float | None = None
    """For how long it stood in line for its cores while guests computed; None: nobody counts that."""
    lasted_s: float = 0.0
    needed_bytes: int = 0
    guests: tuple[Guest, ...] = ()


@value
class GuestSetting:
    """`duty` 0: it is to stand still. `limit_bytes` None: leave it. `has_room`: if not, pause it so that P is freed."""

    duty: int
    limit_bytes: int | None = None
    has_room: bool = True


@value
class Setting:
    guests: dict[str, GuestSetting]
    holder_limit_bytes: int | None
    slowdown: float | None
    """Of the holder, by what is known since the last change; None while that is nothing. While guests rest: why."""
    reason: str
