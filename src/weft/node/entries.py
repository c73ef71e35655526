"""Files and folders that jobs can put in our way: read and removed without waiting, whatever stands there.

The folders of records and of pages belong to the user, and so do the jobs. In the place of a file of ours there may be
a folder, a pipe that nobody writes to, a link to a device without an end, or nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from weft.core.errors import WeftError
from weft.node.regular import REGULAR, kind_at

LARGEST_BYTES = 64 << 20
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EIO)
"""Errors of the machine, which may pass. All others are of what stands in the way, which stays."""
OPENING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class EntryError(WeftError):
    """What stands at a path is not what weft put there."""


def is_passing(error: OSError) -> bool:
    return error.errno in PASSING


def read_file(path: Path, most_bytes: int = LARGEST_BYTES) -> bytes | None:
    """What a regular file of ours has; None if there is none. EntryError if something else is there."""
    try:
        fd = os.open(path, OPENING)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if is_passing(error):
            raise
        raise EntryError(f"{path.name} cannot be read: {_why_not(path, error)}") from error
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise EntryError(f"{path.name} cannot be read: it is {kind_at(path)}")
        if os.geteuid() not in (0, status.st_uid):
            raise EntryError(f"{path.name} cannot be read: it belongs to user {status.st_uid}")
        if status.st_size > most_bytes:
            raise EntryError(f"{path.name} cannot be read: it has {status.st_size} bytes")
        with open(fd, "rb", closefd=False) as file:
            return file.read(most_bytes)
    finally:
        os.close(fd)


def _why_not(path: Path, error: OSError) -> str:
    kind = kind_at(path)
    return str(error.strerror) if kind == REGULAR else f"it is {kind}"


def discard(path: Path) -> None:
    """Nothing stands at `path` any more. A folder that is not empty is moved aside and left: we make none."""
    try:
        path.unlink(missing_ok=True)
    except IsADirectoryError:
        _discard_folder(path)
    except PermissionError:
        if not path.is_dir():
            raise
        _discard_folder(path)


def _discard_folder(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:
        path.rename(path.with_name(f".aside-{os.urandom(8).hex()}"))


def write_new(path: Path, content: bytes) -> None:
    """A file that was not there before, for us alone."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)


def replace_file(path: Path, content: bytes) -> None:
    """`path` has this content from one instant to the next, whatever stood there. For us alone: it holds a user's
    environment."""
    draft = path.with_name(f".{path.name}-{os.urandom(8).hex()}")
    try:
        write_new(draft, content)
        if path.is_dir() and not path.is_symlink():
            discard(path)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
