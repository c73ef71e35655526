"""What the attempts on a node share: its devices, who holds them, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.core.value import value
from weft.home import Home
from weft.node.devices import Device
from weft.node.holding import Holding
from weft.node.kinds import Kind


@value
class Graces:
    """How long a job has to end by itself, and to come to a step boundary."""

    stop_grace_s: float = 5.0
    pause_grace_s: float = 10.0


@dataclass
class Ground:
    home: Home
    run: Path
    """home.run, which takes its time to find."""

    boot_id: str
    kind: Kind
    devices: dict[int, Device]
    report: Callable[[dict[str, Any]], None]
    has_older: Callable[[str, int], bool]
    """Whether an earlier attempt of a job is still here."""

    held_by_paused: Callable[[set[int], frozenset[str]], int]
    """The bytes that paused attempts hold of these devices, but for those of the jobs with these ids."""

    strays: Callable[[], set[int]]
    """Children of ours that no attempt accounts for."""

    holding: Holding
    graces: Graces = field(default_factory=Graces)

    def is_blocked(self, indexes: tuple[int, ...]) -> bool:
        """Somebody else is on one of these devices."""
        return any(device.blocked_by for device in self.some(indexes))

    def some(self, indexes: tuple[int, ...]) -> list[Device]:
        return [self.devices[index] for index in indexes if index in self.devices]
