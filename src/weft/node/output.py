"""A job's own output file (`--output`): what its pattern stands for, and the file made ready before a task starts.

It is opened by the owner of the job, as everything of the job is. Nothing is waited for, and only a regular file or
/dev/null is written to: a fifo would stop the job, and a device may be anything.
"""

from __future__ import annotations

import os
import pwd
import re
import stat
from contextlib import suppress
from pathlib import Path

from weft.core.errors import WeftError
from weft.node.records import Record
from weft.system.files import kind_at
from weft.system.home import Home

PATTERN = re.compile(r"%([0-9]{0,2})([jAaxtu%])")


def path_of(record: Record, rank: int) -> str:
    """Where a task is to write, in the job's folder unless the path is absolute. Unknown patterns stay as they are."""
    number, _, index = record.job.partition("_")
    meant = {
        "j": record.job,
        "A": number,
        "a": index or "0",
        "x": str(record.launch.get("name") or record.job).replace("/", "_"),
        "t": str(rank),
        "u": _user(),
        "%": "%",
    }
    pattern = str(record.launch["output"])
    path = PATTERN.sub(lambda match: meant[match[2]].rjust(int(match[1] or 0), "0"), pattern)
    return os.path.join(record.launch["cwd"], path)  # noqa: PTH118 - bytes that are no text stay as they are


def prepared(home: Home, record: Record, rank: int) -> str:
    """The file of a task, there and empty when its job first starts; its log in the home is a link to it."""
    path, link = path_of(record, rank), home.log(record.job, rank)
    shared = any(path_of(record, other) == path for other in range(rank))
    is_first = record.attempt == 1 and not link.is_symlink() and not shared
    try:
        _make(path, record.launch["umask"], is_first)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WeftError(f"its output {path[:200]} cannot be written: {why.lower()}") from error
    real = os.path.realpath(path)
    if not link.is_symlink():
        with suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(real)
    return real


def _make(path: str, umask: int, is_first: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    is_new = not os.path.lexists(path)
    fd = os.open(path, flags, 0o600)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            if is_new:
                os.fchmod(fd, 0o666 & ~umask)  # the job's umask, not ours
            if is_first:
                os.ftruncate(fd, 0)
        elif status.st_rdev != os.stat(os.devnull).st_rdev:  # noqa: PTH116
            raise ValueError(f"it is {kind_at(Path(path))}, not a file")
    finally:
        os.close(fd)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
