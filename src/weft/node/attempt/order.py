"""What the daemon orders of an attempt: run, pause or stop, on which devices and in which seat; an attempt's states."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

from weft.core.errors import WeftError
from weft.core.value import value

MOST_TASKS = 4096
ENDLESS = 1 << 63


@value
class AttemptSeat:
    is_guest: bool = False
    is_throttled: bool = False
    """Whether it is to be throttled so far that the holder of its devices runs as if alone."""
    lane: int = 0
    """The lane of its device that it is to be in; 0 for none."""
    base: int = 0
    weight: int = 1
    """The next turn is of the waiting member with the smallest base + weight * time used; so by default all get the
    same time."""

    @classmethod
    def from_json(cls, said: Mapping[str, Any] | None) -> AttemptSeat:
        """As an order says it; without a seat in the order it holds its devices."""
        said = said or {}
        return cls(
            is_guest=bool(said.get("guest")),
            is_throttled=bool(said.get("throttled")),
            lane=int(said.get("lane") or 0),
            base=int(said.get("base") or 0),
            weight=int(said.get("weight", 1)),
        )


HOLDER = AttemptSeat()


class AttemptState(enum.Enum):
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
class AttemptOrder:
    wanted: Wanted
    generation: int
    devices: tuple[int, ...] = ()
    seat: AttemptSeat = HOLDER
    needs_bytes: int | None = None
    """Device memory that the incoming jobs need."""
    incoming: frozenset[str] = frozenset()
    """Their ids. What they hold already while they pause is part of what they need."""


def checked_launch(asked: Any) -> dict[str, Any]:
    """What an order, or a record, says of a launch; WeftError if it is not what a launch needs. What the kernel refuses
    of it is reported by the shepherd."""
    try:
        words, env = asked["command"], asked["env"]
        folder, numbers = asked["cwd"], [asked[name] for name in ("umask", "tasks", "devices_per_task")]
    except (TypeError, KeyError) as error:
        raise WeftError(f"its order is not complete: {error}") from error
    if not isinstance(env, dict) or not isinstance(words, list) or not words or not asked["tasks"]:
        raise WeftError("its order is malformed")
    if not all(isinstance(text, str) for text in [folder, *words, *env, *env.values()]):
        raise WeftError("something in its command or environment is not a text")
    if not all(isinstance(asked.get(name) or "", str) for name in ("output", "name")):
        raise WeftError("something in its order is not a text")
    numbers += [asked[name] for name in ("memory_bytes", "limit_bytes", "cpus") if asked.get(name) is not None]
    numbers += list((asked.get("tty") or {}).values()) if isinstance(asked.get("tty") or {}, dict) else [-1]
    if not all(isinstance(number, int) and 0 <= number < ENDLESS for number in numbers) or asked["tasks"] > MOST_TASKS:
        raise WeftError("a number in its order makes no sense")
    return dict(asked)
