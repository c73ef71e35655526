"""One process per home: the one that holds the lock file. The kernel releases it when the process ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.core.errors import WeftError
from weft.system.files import WrongKindError, open_regular

LOOK_EVERY_S = 0.02


class LockedError(WeftError):
    """Another process holds the lock."""


@contextmanager
def taken_lock(path: Path, what: str, wait_s: float = 0.0) -> Iterator[None]:
    """The lock, with our pid in it for messages. One that was killed may need a moment to be gone."""
    fd = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        deadline_s = time.monotonic() + wait_s
        while not _is_taken(fd):
            if time.monotonic() >= deadline_s:
                raise LockedError(
                    f"a {what} runs already for {path.parent}: process {_pid_in(fd)}", "weft down ends it"
                )
            time.sleep(LOOK_EVERY_S)
        with suppress(OSError):  # a full disk: then messages cannot name the holder
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(fd)


def holder_of(path: Path) -> int | None:
    """The pid of the lock's holder, 0 if it is not written yet; None if the lock is free."""
    try:
        fd = open_regular(path, os.O_RDWR)
    except (FileNotFoundError, NotADirectoryError, WrongKindError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid_in(fd)
    finally:
        os.close(fd)
    return None


def _is_taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid_in(fd: int) -> int:
    said = os.pread(fd, 20, 0).strip()
    return int(said) if said.isdigit() else 0
