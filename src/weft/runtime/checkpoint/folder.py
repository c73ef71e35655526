"""A folder of checkpoints: opened by descriptor, with durable writes, and read only if trusted.

An open folder stays the same folder, whatever becomes of its name meanwhile. A checkpoint is a pickle, so loading one
trusts all who could write it: it is loaded if only this user or root can have written it. The open file is checked,
not its name, so what is done to the name or to the folders above changes nothing.
"""

import errno
import os
import stat
from contextlib import contextmanager
from typing import BinaryIO, Iterator, List, Optional, cast

from ..failpoints import reach

FOLDER_MODE = 0o755  # before the umask: only this user may write
FILE_MODE = 0o644  # before the umask: only this user may write, whatever its other files allow
NOT_A_FILE = "is no regular file"
IS_A_LINK = "is a symbolic link"
TRUST_VARIABLE = "WEFT_TRUST_CHECKPOINT"
HINT = "; if you trust what is in it: --trust-checkpoint"


class UntrustedError(OSError):
    """The file or folder may be of another user's making; `strerror` says why."""


class Folder:
    def __init__(self, path: str) -> None:
        """Raises OSError if there is none, UntrustedError if it is not trusted."""
        self.path = path
        self._descriptor = _open(path, os.O_DIRECTORY)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def names(self) -> List[str]:
        return sorted(os.listdir(self._descriptor))

    def path_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def open_file(self, name: str) -> BinaryIO:
        """Open a file to read. A fifo or a device in its place is refused, not waited for."""
        descriptor = _open(name, os.O_NONBLOCK, self._descriptor)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            raise UntrustedError(errno.EPERM, NOT_A_FILE)
        return cast("BinaryIO", os.fdopen(descriptor, "rb"))

    def size_of(self, name: str) -> int:
        with self.open_file(name) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def new_file(self, name: str, part: str) -> Iterator[BinaryIO]:
        """A new file, on the disk once the block is over. `part` is how its fail-points begin."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, FILE_MODE, dir_fd=self._descriptor), "w+b") as file:
            reach(part + "-opened")
            yield file
            file.flush()
            reach(part + "-written")
            os.fsync(file.fileno())
        reach(part + "-synced")

    def open_lock(self, name: str) -> int:
        """A file that is there to be locked; its descriptor."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        return os.open(name, flags, FILE_MODE, dir_fd=self._descriptor)

    def rename(self, old: str, new: str) -> None:
        """Rename atomically and durably."""
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        sync(self._descriptor)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self._descriptor)


def _open(name: str, flags: int, folder: "int | None" = None) -> int:
    """Unless all is trusted: no link, and nothing that another user can have made or changed."""
    trusted = is_all_trusted()
    follow = 0 if trusted else os.O_NOFOLLOW
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | follow | flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, folder):
            raise UntrustedError(error.errno, IS_A_LINK) from None
        if error.errno == errno.ENXIO:  # a socket, or a device without a driver
            raise UntrustedError(error.errno, NOT_A_FILE) from None
        raise
    why = None if trusted else distrust_of(descriptor)
    if why is not None:
        os.close(descriptor)
        raise UntrustedError(errno.EPERM, why)
    return descriptor


def _is_link(name: str, folder: "int | None") -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def is_all_trusted() -> bool:
    """Whether the user allowed everything for this run (weft exec, run, submit --trust-checkpoint)."""
    return os.environ.get(TRUST_VARIABLE) == "1"


def distrust_of(descriptor: int) -> Optional[str]:
    """Why the file or folder that is open there may be of another user's making; None if it cannot be."""
    status = os.fstat(descriptor)
    if status.st_uid not in (os.geteuid(), 0):
        return "belongs to user %d, and this is user %d%s" % (status.st_uid, os.geteuid(), HINT)
    if status.st_mode & stat.S_IWOTH:
        return "can be written by all users (chmod o-w)%s" % HINT
    if status.st_mode & stat.S_IWGRP and not (_is_private(status.st_gid) and not _has_list(descriptor)):
        return "can be written by the users of group %d (chmod g-w)%s" % (status.st_gid, HINT)
    return None


def _is_private(group: int) -> bool:
    """Whether this user alone is in the group, as where each user has one of the same name and umask is 002."""
    import grp
    import pwd

    try:
        listed = {pwd.getpwnam(name).pw_uid for name in grp.getgrgid(group).gr_mem}
    except KeyError:
        return False
    by_default = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == group}
    return listed | by_default == {os.geteuid()}


def _has_list(descriptor: int) -> bool:
    """Whether it has an access control list: the group bits then apply to users named there."""
    try:
        return bool(os.getxattr(descriptor, "system.posix_acl_access"))
    except OSError:
        return False


def make_folder(folder: str) -> None:
    """The folder and those above it, each on the disk. Other ranks may be making the same ones."""
    if not os.path.exists(folder):
        above = os.path.dirname(folder)
        make_folder(above)
        os.makedirs(folder, FOLDER_MODE, exist_ok=True)
        sync_folder(above)


def sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd)
    finally:
        os.close(fd)


def sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that syncs no folders
            raise
