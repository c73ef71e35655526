"""A folder that is open: what is done in it is done there, whatever becomes of its name meanwhile."""

import errno
import os
import stat
from contextlib import contextmanager
from typing import BinaryIO, Iterator, List, cast

from .durable import sync
from .failing import reach
from .trust import distrust_of, is_all_trusted

FILE_MODE = 0o644  # less what the umask takes away: others may not write here, even if they may elsewhere
NOT_A_FILE = "is no regular file"
IS_A_LINK = "is a symbolic link"


class UntrustedError(OSError):
    """The file or folder may be of another user's making; `strerror` says why."""


class Folder:
    def __init__(self, path: str) -> None:
        """Raises OSError if there is none; UntrustedError is one that tells why it is not used."""
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
        """To read it. A fifo or a device in its place is refused, not waited for."""
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
        """`new` is `old` from one instant to the next, and stays so if the power fails."""
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
