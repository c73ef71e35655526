"""Who computes on which device: from before an attempt is launched until it stands or is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection

Key = tuple[str, int]


class Holding:
    """`on_free` is called when somebody lets go."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._occupants: dict[int, set[Key]] = {}
        self._on_free = on_free

    def take(self, key: Key, devices: Collection[int], is_welcome: Callable[[Key, int], bool]) -> bool:
        """All of them beside whoever may stay there, or none if somebody has to leave first."""
        if not all(is_welcome(other, device) for device in devices for other in self.on([device]) - {key}):
            return False
        self.keep(key, devices)
        return True

    def keep(self, key: Key, devices: Collection[int]) -> None:
        """Be where one is, as found after a restart, whoever else may be there too."""
        for device in devices:
            self._occupants.setdefault(device, set()).add(key)

    def on(self, devices: Collection[int]) -> set[Key]:
        """Everybody on one of these devices."""
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
