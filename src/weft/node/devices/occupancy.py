"""Which attempts are on this node, and which of them compute on which device.

An attempt occupies a device from before it is launched until it is paused or gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from weft.node.attempt.order import AttemptState
from weft.node.sharing import node_lanes

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt

Key = tuple[str, int]


class Occupancy:
    """`on_free` is called when an attempt leaves devices."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._occupants: dict[int, set[Key]] = {}
        self._on_free = on_free

    def take(self, key: Key, devices: Collection[int], admits: Callable[[Key, int], bool]) -> bool:
        """All of them, beside attempts that may stay there; or none if another attempt has to leave first."""
        if not all(admits(other, device) for device in devices for other in self.on([device]) - {key}):
            return False
        self.keep(key, devices)
        return True

    def keep(self, key: Key, devices: Collection[int]) -> None:
        """Stay on these devices, as found after a restart, beside any others."""
        for device in devices:
            self._occupants.setdefault(device, set()).add(key)

    def on(self, devices: Collection[int]) -> set[Key]:
        """All attempts on one of these devices."""
        return set[Key]().union(*(self._occupants.get(device, ()) for device in devices))

    def let_go(self, key: Key, but_for: Collection[int] = ()) -> None:
        """Leave all devices but for these."""
        left = [device for device, there in self._occupants.items() if key in there and device not in but_for]
        for device in left:
            self._occupants[device].discard(key)
            if not self._occupants[device]:
                del self._occupants[device]
        if left:
            self._on_free()


class NodeAttempts:
    def __init__(self) -> None:
        self.attempts: dict[Key, Attempt] = {}
        self.occupancy = Occupancy(on_free=self.wake_all)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self.attempts.values()))

    def wake_all(self) -> None:
        for attempt in self:
            attempt.wake()

    def wake_incoming(self) -> None:
        """Wake attempts that wait for devices: those there may admit them now."""
        for attempt in self:
            if attempt.is_incoming:
                attempt.wake()

    def take(self, incoming: Attempt, devices: Collection[int]) -> bool:
        """Be on these devices, as soon as all others there may stay beside the incoming attempt."""

        def admits(key: Key, device: int) -> bool:
            other = self.attempts.get(key)
            return other is not None and other.admits(device, beside_guest=incoming.order.seat.is_guest)

        return self.occupancy.take(incoming.record.key, devices, admits)

    def beside(self, attempt: Attempt) -> list[Attempt]:
        """The others on one of its devices, in the order of their names."""
        keys = self.occupancy.on(attempt.record.devices) - {attempt.record.key}
        return [self.attempts[key] for key in sorted(keys) if key in self.attempts]

    def neighbours(self, attempt: Attempt) -> list[str]:
        """The jobs that compute on one of its devices beside it."""
        if attempt.state is not AttemptState.RUNNING:
            return []
        return sorted({each.record.job for each in self.beside(attempt) if each.is_computing})

    def has_older(self, job: str, number: int) -> bool:
        return any(key[0] == job and key[1] < number for key in self.attempts)

    def held_bytes(self, whose: Attempt, but_for: Collection[str]) -> int:
        """The memory that others have of an attempt's devices, but for jobs with these ids: jobs that pause, and jobs
        that will resume there."""
        indexes = set(whose.record.devices)
        others = [each for each in self if each is not whose and each.record.job not in but_for]
        return sum(each.occupied_bytes for each in others if indexes & set(each.record.devices))

    def lane_pages(self, run: Path) -> set[Path]:
        """Of all lanes that have members."""
        pages = [node_lanes.page_of(run, each.record) for each in self if not each.is_over]
        return {page for page in pages if page}
