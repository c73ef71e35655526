"""What was added to a file since it was last looked at."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from weft.core.errors import InputError

NO_LOG = "the job has put something else in its place"
AT_ONCE_BYTES = 1 << 16
SOON_S, LATER_S = 0.02, 0.1


def open_log(path: Path) -> int | None:
    """A log to be read; None if there is none. What a job has put in its place is neither waited for nor followed."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", NO_LOG) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise InputError(f"{path} cannot be read: it is no regular file", NO_LOG)
    return fd


class Tail:
    """A file that only grows, and need not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def read(self) -> bytes:
        """The next bytes, or none for now."""
        if self._fd is None:
            self._fd = open_log(self._path)
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
