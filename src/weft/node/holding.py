"""Who computes on which device: at most one attempt, from before it is launched until it stands or is gone."""

from __future__ import annotations

from collections.abc import Callable, Collection

Key = tuple[str, int]


class Holding:
    """`on_free` is called when somebody lets go."""

    def __init__(self, on_free: Callable[[], None]) -> None:
        self._holders: dict[int, set[Key]] = {}
        self._on_free = on_free

    def take(self, key: Key, devices: Collection[int]) -> bool:
        """All of them, or none if one of them is held by another."""
        if any(self._holders.get(device, {key}) != {key} for device in devices):
            return False
        self.keep(key, devices)
        return True

    def keep(self, key: Key, devices: Collection[int]) -> None:
        """Hold what one has, as found after a restart, whoever else may have it too."""
        for device in devices:
            self._holders.setdefault(device, set()).add(key)

    def let_go(self, key: Key) -> None:
        held = [device for device, holders in self._holders.items() if key in holders]
        for device in held:
            self._holders[device].discard(key)
            if not self._holders[device]:
                del self._holders[device]
        if held:
            self._on_free()
