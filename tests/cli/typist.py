"""Somebody at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

from waiting import PATIENCE_S


class Typist:
    """Somebody at a terminal, in whose session a program runs as its first process."""

    def __init__(self, *command: str, **env: str) -> None:
        self.master, slave = pty.openpty()
        in_session = "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", f"{in_session} os.execvp(sys.argv[1], sys.argv[1:])", *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, **env},
        )
        os.close(slave)
        self._seen = ""

    def types(self, text: str) -> None:
        os.write(self.master, text.encode())

    def sees(self, pattern: str) -> re.Match[str]:
        """Wait until the screen shows this, after what was seen before."""
        deadline = time.monotonic() + PATIENCE_S
        while not (match := re.search(pattern, self._seen)):
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{pattern} did not come, but {self._seen!r}"
            self._seen += os.read(self.master, 65536).decode()
        self._seen = self._seen[match.end() :]
        return match

    def pid(self) -> int:
        return int(self.sees(r"<(\d+)>")[1])

    def leaves(self) -> None:
        os.close(self.master)  # hangs up on everything in the session
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
