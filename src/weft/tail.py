"""What was added to a file since it was last looked at."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

AT_ONCE_BYTES = 1 << 16
SOON_S, LATER_S = 0.02, 0.1


class Tail:
    """A file that only grows, and need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def read(self) -> bytes:
        """The next bytes, or none for now."""
        if self._fd is None:
            with suppress(FileNotFoundError):
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return os.read(self._fd, AT_ONCE_BYTES) if self._fd is not None else b""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class Pace:
    """How long to wait until the next look: briefly while something comes, longer when nothing does."""

    def __init__(self) -> None:
        self.wait_s = SOON_S

    def seen(self, has_come: bool) -> None:
        self.wait_s = SOON_S if has_come else min(self.wait_s * 1.1, LATER_S)
