"""What a job prints, and one line about it below, on one terminal. The line is gone before the job's next word."""

from __future__ import annotations

import os
import re
import select
import stat
from contextlib import suppress

from weft.cli.shown import terminal_size

ERASE = b"\r\x1b[K"
MOVES = re.compile(rb"\x1b(?!\[[0-9;]*m)")
"""Anything but colours: such a program draws its own screen, and a line of ours would be in its way."""

OUT, ERR = 1, 2


class Screen:
    """The line is drawn on stderr, and only where the cursor is known to be at the beginning of an empty line."""

    def __init__(self) -> None:
        # What goes into a pipe may come out on this very terminal, at any time.
        self.has_line = os.isatty(ERR) and not stat.S_ISFIFO(os.fstat(OUT).st_mode)
        self.is_raw = False
        self._shown = b""
        self._is_at_start = True
        self._is_drawn_by_job = False

    def write(self, fd: int, data: bytes) -> None:
        """What the job printed, byte by byte as it did."""
        if not os.isatty(fd):
            write_all(fd, data)
            return
        self.erase()
        write_all(fd, data)
        self._is_at_start = data.endswith(b"\n")
        self._is_drawn_by_job = self._is_drawn_by_job or MOVES.search(data) is not None

    def draw(self, text: str) -> None:
        """Show this line, or another one in its place."""
        if not self.has_line or not self._is_at_start or self._is_drawn_by_job:
            return
        line = text[: terminal_size()[0] - 1].encode()
        if line != self._shown:
            _write_line(ERASE + line)
            self._shown = line

    def erase(self) -> None:
        if self._shown:
            _write_line(ERASE)
            self._shown = b""

    def say(self, text: str) -> None:
        """A line that stays."""
        self.erase()
        end = b"\r\n" if self.is_raw else b"\n"
        begin = b"" if self._is_at_start or not self.has_line else end
        _write_line(begin + text.encode() + end)
        self._is_at_start = True


def _write_line(line: bytes) -> None:
    with suppress(OSError):  # a terminal that hung up has no reader, and the job goes on all the same
        write_all(ERR, line)


def write_all(fd: int, data: bytes) -> None:
    """All of it, also to one who made his end non-blocking."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            select.select([], [fd], [])
