"""A folder in memory that only this user can enter."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from weft.core.errors import WeftError
from weft.node.mounts import is_in_memory

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - in a folder of our own, which nobody else may enter
ELSEWHERE = "name another file in memory: --page /dev/shm/NAME"


def private_folder() -> Path:
    """A folder in memory that only this user can enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    folders = [SHARED_MEMORY / f"weft-{os.getuid()}", *([Path(runtime) / "weft"] if runtime else [])]
    for folder in folders:
        if is_in_memory(folder.parent) and _made_private(folder):
            return folder
    tried = " and ".join(map(str, folders))
    raise WeftError(f"no place in memory for control pages and sockets: {tried} cannot be used", ELSEWHERE)


def _made_private(folder: Path) -> bool:
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False  # somebody else was here first, and could put anything into it
        folder.chmod(0o700)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
