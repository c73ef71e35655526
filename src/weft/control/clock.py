"""Time that only goes forward, whatever happens to the machine's clock, also over restarts of the daemon."""

from __future__ import annotations

import math
import time
from pathlib import Path

from weft.core.value import value

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@value
class Mark:
    """The last instant that is on record: its time, and how long the machine had been up."""

    at: float
    boot_id: str
    boot_s: float


class Clock:
    """Seconds since 1970, taken from the wall once and counted on by the time since boot, sleep included.

    A restart goes on counting from the mark. After a reboot only the wall clock says how long the
    machine was off; nothing ran in between, so a clock that was set back only makes that time seem to be none.
    """

    def __init__(self, last: Mark | None = None) -> None:
        self.boot_id = boot_id()
        self._offset_s = time.time() - boot_s()
        self._last = -math.inf
        if last is not None:
            self._last = last.at
            if last.boot_id == self.boot_id and last.boot_s <= boot_s():
                self._offset_s = last.at - last.boot_s
            self._offset_s = max(self._offset_s, last.at - boot_s())

    def now(self) -> float:
        """Later than every instant before."""
        self._last = max(self._offset_s + boot_s(), math.nextafter(self._last, math.inf))
        return self._last

    def peek(self) -> float:
        """The time, for readers: it does not advance the clock."""
        return max(self._offset_s + boot_s(), self._last)

    def mark(self, at: float) -> Mark:
        return Mark(at, self.boot_id, at - self._offset_s)


def boot_id() -> str:
    return BOOT_ID.read_text().strip()


def boot_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
