"""What was added to a file since it was last looked at."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from weft.core.errors import WeftError

AT_ONCE_BYTES = 1 << 16
LONGEST_BYTES = 64 << 20
"""Of a log without line breaks, so much is read to find its last lines."""
MOST_LINES = 1_000_000
SOON_S, LATER_S = 0.02, 0.1


class NoFileError(WeftError):
    """Something else is in the place of the file: the job that writes it can replace it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a regular file", f"something has replaced it: ls -l {path}")


def open_file(path: Path) -> int:
    """A descriptor to read it. FileNotFoundError if it is not there; a fifo or a device is not waited for."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link to itself, a socket
            raise NoFileError(path) from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NoFileError(path)
    return fd


def read_piece(path: Path, offset: int) -> bytes:
    """The next bytes from an offset on; none at the end."""
    fd = open_file(path)
    try:
        return os.pread(fd, AT_ONCE_BYTES, offset)
    finally:
        os.close(fd)


def last_lines_at(path: Path, lines: int) -> int:
    """The offset at which the last lines of a file begin; of lines that are longer than LONGEST_BYTES in all, the end.

    A line that has no end yet is one of them.
    """
    fd = open_file(path)
    try:
        size = os.fstat(fd).st_size
        if lines == 0:
            return size
        at, left = size, lines
        first = max(0, size - LONGEST_BYTES)
        while at > first:
            begin = max(first, at - AT_ONCE_BYTES)
            piece = os.pread(fd, at - begin, begin)
            if at == size and piece.endswith(b"\n"):
                left += 1  # it ends the last line
            found = piece.count(b"\n")
            if found >= left:
                end = len(piece)
                for _ in range(left):
                    end = piece.rindex(b"\n", 0, end)
                return begin + end + 1
            at, left = begin, left - found
        return first
    finally:
        os.close(fd)


class Tail:
    """A file that only grows, and need not be there yet. `last`: from so many lines before its end on, if it is."""

    def __init__(self, path: Path, last: int | None = None) -> None:
        self._path = path
        self._fd: int | None = None
        if last is not None:
            with suppress(FileNotFoundError):
                at = last_lines_at(path, last)
                self._fd = open_file(path)
                os.lseek(self._fd, at, os.SEEK_SET)

    def read(self) -> bytes:
        """The next bytes, or none for now."""
        if self._fd is None:
            with suppress(FileNotFoundError):
                self._fd = open_file(self._path)
        return os.read(self._fd, AT_ONCE_BYTES) if self._fd is not None else b""

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


class PollingPace:
    """How long to wait until the next look: briefly while data arrives, longer when none does."""

    def __init__(self) -> None:
        self.wait_s = SOON_S

    def seen(self, has_come: bool) -> None:
        self.wait_s = SOON_S if has_come else min(self.wait_s * 1.1, LATER_S)
