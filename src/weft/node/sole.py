"""A process of which there is one for each home."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

from weft.core.errors import WeftError

WAIT_S, LOOK_EVERY_S = 3.0, 0.02


def take_lock(path: Path, what: str, wait_s: float = WAIT_S) -> int:
    """The lock, held until it is closed or we end. One that was killed may need a moment to be gone."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait_s
    while not _is_taken(fd):
        if time.monotonic() > deadline:
            holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(fd)
            raise WeftError(f"a {what} runs already for {path.parent}: process {holder}")
        time.sleep(LOOK_EVERY_S)
    with suppress(OSError):  # a full disk: then nobody is told who has it
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd


def _is_taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
