"""One key from whoever sits at the terminal."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Callable

LOOK_EVERY_S = 0.1


def asked_key(has_passed: Callable[[], bool]) -> bytes | None:
    """The next key, by which the person answers; None if the question has passed meanwhile, or nobody can answer.

    Ctrl-C is a key as any other here.
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
    """Whether somebody is there: our own terminal, which we have in the foreground."""
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
