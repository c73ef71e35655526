"""Files and folders of a home, opened and removed safely whatever is in their place, and their file systems."""

from __future__ import annotations

import errno
import os
import re
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
    """A user as shown in messages."""
    import pwd

    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


class WrongKindError(WeftError):
    """Not the kind of file that belongs there. It is left as it is."""


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


# ---- Paths that jobs can write to: read and removed without waiting, whatever is there.
#
# The folders of records and of pages belong to the user, and so do the jobs. In the place of a file of ours there may
# be a folder, a pipe without a writer, a link to a device without an end, or nothing.

LARGEST_ENTRY_BYTES = 64 << 20
PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EIO)
"""Errors of the machine, which may pass. All others come from what is at the path, which stays."""
OPENING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class EntryError(WeftError):
    """What is at a path is not what weft put there."""


def is_passing(error: OSError) -> bool:
    return error.errno in PASSING


def read_file(path: Path, most_bytes: int = LARGEST_ENTRY_BYTES) -> bytes | None:
    """The content of a regular file of ours; None if there is none. EntryError if something else is there."""
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
    """Remove what is at `path`. A folder that is not empty is moved aside and left: weft makes none."""
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
    """Replace `path` atomically, whatever was there. For us alone: it holds a user's
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


# ---- Which file system a path is on.

MOUNTINFO = Path("/proc/self/mountinfo")
UNKNOWN = "an unknown file system"
IN_MEMORY = ("tmpfs", "ramfs")


def is_in_memory(path: Path) -> bool:
    return file_system(path) in IN_MEMORY


def file_system(path: Path) -> str:
    """Its type: ext4, tmpfs, nfs4. Links on the way are followed, and what does not exist yet is where it would be."""
    try:
        mountinfo = os.fsdecode(MOUNTINFO.read_bytes())
    except OSError:
        return UNKNOWN
    return file_system_in(mountinfo, path.resolve())


def file_system_in(mountinfo: str, path: Path) -> str:
    """The type of the deepest mount that holds an absolute path; of two at one point, the later hides the earlier."""
    deepest, found = -1, UNKNOWN
    for line in mountinfo.split("\n"):
        mount, dash, system = line.partition(" - ")
        if not dash:
            continue
        point = Path(_unescaped(mount.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), system.split(" ")[0]
    return found


def mounts_of(mountinfo: str, system: str) -> list[tuple[str, Path]]:
    """The mount points of file systems of this type, each with the part mounted there: the root, or a folder in it."""
    lines = [line.partition(" - ") for line in mountinfo.split("\n")]
    fields = [mount.split(" ") for mount, _, rest in lines if rest.split(" ")[0] == system]
    return [(_unescaped(each[3]), Path(_unescaped(each[4]))) for each in fields]


def _unescaped(text: str) -> str:
    """Mount points as they are: the kernel writes blanks and backslashes in octal."""
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)
