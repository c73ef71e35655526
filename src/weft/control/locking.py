"""One daemon for each home: whoever holds the lock. The kernel lets go of it with its holder, however that ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.core.errors import WeftError


class LockedError(WeftError):
    """Somebody else holds the lock."""


@contextmanager
def taken_lock(path: Path) -> Iterator[None]:
    """The lock, with our pid in it for people to read."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(fd, 20, 0).decode().strip()
            raise LockedError(f"a weft runs here already, as process {holder}", "weft down stops it") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        yield
    finally:
        os.close(fd)


def holder_of(path: Path) -> int | None:
    """The pid of whoever holds the lock, 0 if it has not said so yet; None if nobody does."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return int(os.pread(fd, 20, 0).decode().strip() or 0)
    finally:
        os.close(fd)
    return None
