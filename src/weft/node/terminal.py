"""The terminal a command was started from: one process group at a time may read it, and gets its Ctrl-C and Ctrl-Z."""

from __future__ import annotations

import os
from contextlib import suppress


class Terminal:
    """The controlling terminal, if there is one. Whoever calls these has SIGTTOU blocked, or `lend` may stop him.

    A terminal that goes away in the middle is no error: who had it is told by SIGHUP.
    """

    def __init__(self) -> None:
        self._fd: int | None = None
        with suppress(OSError):
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)

    def is_with(self, group: int) -> bool:
        if self._fd is None:
            return False
        try:
            return os.tcgetpgrp(self._fd) == group
        except OSError:
            return False

    def is_ours(self) -> bool:
        return self.is_with(os.getpgrp())

    def lend(self, group: int) -> None:
        if self._fd is not None:
            with suppress(OSError):
                os.tcsetpgrp(self._fd, group)

    def take_back(self, group: int) -> bool:
        """Whether this group had it. A third one that has it keeps it."""
        if not self.is_with(group):
            return False
        self.lend(os.getpgrp())
        return True

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
