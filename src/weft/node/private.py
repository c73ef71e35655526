"""A folder in memory that only this user can enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from weft.core.errors import WeftError
from weft.node.mounts import is_in_memory

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - in a folder of our own, which nobody else may enter
ELSEWHERE = "name another file in memory: --page /dev/shm/NAME"


def private_folder() -> Path:
    """A folder in memory that only this user can enter.

    Where another user has taken the usual name, it is one with a random suffix: every process of this user finds it,
    whatever its environment, because only this user can own it. Without shared memory it is the login session's.
    """
    usual = SHARED_MEMORY / f"weft-{os.getuid()}"
    folders = [usual, *_of_the_session()]
    if is_in_memory(SHARED_MEMORY):
        folder = usual if made_private(usual) else _suffixed()
        if folder is not None:
            return folder
    for folder in _of_the_session():
        if is_in_memory(folder.parent) and made_private(folder):
            return folder
    tried = " and ".join(map(str, folders))
    raise WeftError(f"no place in memory for control pages and sockets: {tried} cannot be used", ELSEWHERE)


def private_folders() -> list[Path]:
    """Every folder of this user in which a weft may have put something; nothing is made."""
    folders = [SHARED_MEMORY / f"weft-{os.getuid()}", *_suffixed_ones(), *_of_the_session()]
    return [folder for folder in folders if is_private(folder)]


def made_private(folder: Path) -> bool:
    """Make a folder for this user alone; whether it is one now. Another user's is left as it is."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False  # another user made it, and could put anything into it
        folder.chmod(0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK)


def is_private(folder: Path) -> bool:
    """Whether a folder is this user's, and closed to all others."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    is_closed = not stat.S_IMODE(status.st_mode) & 0o077
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and is_closed


def _of_the_session() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return [Path(runtime) / "weft"] if runtime else []


def _suffixed() -> Path | None:
    """The first of our own with a random suffix, made if there is none. Of two that make one, both take the first."""
    if not any(map(made_private, _suffixed_ones())):
        with suppress(OSError):
            (SHARED_MEMORY / f"weft-{os.getuid()}-{os.urandom(8).hex()}").mkdir(mode=0o700)
    return next(filter(made_private, _suffixed_ones()), None)


def _suffixed_ones() -> Iterator[Path]:
    return iter(sorted(SHARED_MEMORY.glob(f"weft-{os.getuid()}-{'[0-9a-f]' * 16}")))
