"""Files of a home, opened so that nothing else in their place can mislead weft or make it wait: a fifo would wait for
ever, a device would take what is written, a folder would be a traceback."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from weft.core.errors import WeftError

REGULAR = "a file"
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFREG: REGULAR,
}
OF_ANOTHER_KIND = (errno.EISDIR, errno.ENXIO, errno.ELOOP, errno.ENODEV, errno.ENOTDIR)
LARGEST_BYTES = 16 << 20


def user_name(uid: int) -> str:
    """A user, for people."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


class WrongKindError(WeftError):
    """Something else than the file that belongs there. It is left as it is."""


def open_regular(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a regular file, or of what a link there leads to if that is one. Opening never waits."""
    try:
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno in OF_ANOTHER_KIND or (error.errno == errno.ENOENT and path.is_symlink()):
            raise wrong_kind(path) from error  # a link to a file that is not there is no file either
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise wrong_kind(path)
    return fd


def check_regular(path: Path) -> None:
    """That a regular file is there, or a link to one, found out without opening it.

    For files that SQLite has open: as soon as a process closes any descriptor of such a file, the kernel drops all
    locks that the process has on it, and SQLite's are among them.
    """
    try:
        is_regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        if error.errno in OF_ANOTHER_KIND or (error.errno == errno.ENOENT and path.is_symlink()):
            raise wrong_kind(path) from error
        raise
    if not is_regular:
        raise wrong_kind(path)


def read_regular(path: Path, most_bytes: int = LARGEST_BYTES) -> bytes:
    """What is in a regular file, up to a limit."""
    with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(most_bytes)


def wrong_kind(path: Path, wanted: str = REGULAR) -> WrongKindError:
    return WrongKindError(f"{path} is {kind_at(path)}, not {wanted}", f"move it away: mv {path} {path}.aside")


def kind_at(path: Path) -> str:
    """What is there: a folder, a pipe, a symbolic link, ..."""
    try:
        return KINDS.get(stat.S_IFMT(path.lstat().st_mode), "something else")
    except OSError:
        return "nothing that can be looked at"


def is_socket(path: Path) -> bool:
    """Whether a socket is there, and no link to one."""
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except OSError:
        return False


def make_folder(path: Path) -> None:
    """A folder for its owner alone; one that is there stays as it is, and so does a link to one."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise wrong_kind(path, "a folder") from error


def clear_place(path: Path) -> Path | None:
    """Make room for a socket: an old socket is removed, anything else is renamed; its new path, if there is one."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISSOCK(status.st_mode):
        path.unlink(missing_ok=True)
        return None
    aside = path.with_name(f"{path.name}.aside-{os.urandom(4).hex()}")
    path.rename(aside)
    return aside
