"""What the attempts on a node share: its devices, each other's company, and whom to tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.value import value
from weft.node.cgroups import Fences
from weft.node.devices import Device
from weft.node.kinds import Kind
from weft.system.home import Home

if TYPE_CHECKING:
    from weft.node.company import Company
    from weft.node.guarding import Guard
    from weft.node.strays import Strays


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
    company: Company
    guard: Guard
    strays: Strays
    fences: Fences
    graces: Graces = field(default_factory=Graces)

    def is_blocked(self, indexes: tuple[int, ...]) -> bool:
        """Somebody else is on one of these devices."""
        return any(device.blocked_by for device in self.some(indexes))

    def some(self, indexes: tuple[int, ...]) -> list[Device]:
        return [self.devices[index] for index in indexes if index in self.devices]
