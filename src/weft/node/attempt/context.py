"""What the attempts of a node share, and the containment of errors to the attempt that they belong to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.devices.device import Device, DeviceKind
from weft.node.fence.cgroups import Fences
from weft.node.task.page_snapshot import DamagedPageError
from weft.system.home import Home

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt
    from weft.node.devices.occupancy import NodeAttempts
    from weft.node.handles.children import Strays
    from weft.node.sharing.throttled_guests import ThrottledGuests

log = logging.getLogger(__name__)


@value
class Graces:
    """How long a job has to end by itself, and to come to a step boundary."""

    stop_grace_s: float = 5.0
    pause_grace_s: float = 10.0


@dataclass
class NodeContext:
    home: Home
    run: Path
    """home.run, which takes its time to find."""

    boot_id: str
    kind: DeviceKind
    devices: dict[int, Device]
    report: Callable[[dict[str, Any]], None]
    node_attempts: NodeAttempts
    throttled_guests: ThrottledGuests
    strays: Strays
    fences: Fences
    graces: Graces = field(default_factory=Graces)

    def is_blocked(self, indexes: tuple[int, ...]) -> bool:
        """A process of another user or program is on one of these devices."""
        return any(device.blocked_by for device in self.some(indexes))

    def some(self, indexes: tuple[int, ...]) -> list[Device]:
        return [self.devices[index] for index in indexes if index in self.devices]


@contextmanager
def contained(consequence: str, attempt: Attempt | None = None) -> Iterator[None]:
    """Go on after an error in here. An attempt whose page is damaged, or with which we fail, is given up.

    A neighbour's damaged page is the neighbour's fault, and an error that weft can name may pass.
    """
    whose = f"job {attempt.record.job}: " if attempt else ""
    try:
        yield
    except DamagedPageError as error:
        if attempt is not None and attempt.has_page(error.path):
            attempt.give_up(error)
    except (WeftError, OSError) as error:
        log.warning("%s%s: %s", whose, consequence, error)
    except Exception as error:
        log.exception("%s%s", whose, consequence)
        if attempt is not None:
            attempt.give_up(WeftError(f"weft failed on it: {error!r}"))
