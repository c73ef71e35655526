"""The user's terminal: a job's output with one status line below it, and a question answered by one key."""

from __future__ import annotations

import os
import re
import select
import stat
import termios
import tty
from collections.abc import Callable
from contextlib import suppress

from weft.cli.render.tables import terminal_size

ERASE = b"\r\x1b[K"
MOVES = re.compile(rb"\x1b(?!\[[0-9;]*m)")
"""Anything but colours: such a program draws its own screen, and a line of ours would be in its way."""

STDIN, OUT, ERR = 0, 1, 2
LOOK_EVERY_S = 0.1


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
    """Write all of it, also to a descriptor that is non-blocking."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            select.select([], [fd], [])


def read_key(has_passed: Callable[[], bool]) -> bytes | None:
    """The next key; None if the question is no longer relevant, or there is no terminal to ask at.

    Ctrl-C is a key like any other here.
    """
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal, termios.TCSADRAIN)
        while not has_passed():
            if select.select([terminal], [], [], LOOK_EVERY_S)[0]:
                return os.read(terminal, 1) or None
        return None
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        os.close(terminal)


def can_ask() -> bool:
    """Whether this process is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.isatty(2) and os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def is_at_a_terminal() -> bool:
    """Whether stdin, stdout and stderr are a terminal, and this process is in its foreground."""
    try:
        return all(map(os.isatty, (STDIN, OUT, ERR))) and os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:
        return False


def has_something_to_read() -> bool:
    with suppress(OSError):
        if os.isatty(STDIN):
            return os.tcgetpgrp(STDIN) == os.getpgrp()
        return os.fstat(STDIN).st_rdev != os.stat(os.devnull).st_rdev  # noqa: PTH116 - of a file without a path
    return False


def is_one_place(first: int, second: int) -> bool:
    try:
        one, other = os.fstat(first), os.fstat(second)
    except OSError:
        return True
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
