"""Files that are on the disk before anyone relies on them, and the instants at which a test may kill their writer."""

import errno
import hashlib
import os
from typing import BinaryIO, Optional, Union

from .failing import reach as reach

FOLDER_MODE = 0o755  # less what the umask takes away: others may not write there

# Every instant of Store.save that leaves a different folder behind, in order.
FAIL_POINTS = (
    "payload-opened",
    "payload-partly-written",  # reached after each piece that torch writes
    "payload-written",  # but not synced
    "payload-synced",  # but under its temporary name
    "payload-renamed",  # but no manifest names it
    "manifest-opened",
    "manifest-written",
    "manifest-synced",
    "committed",
    "manifest-removed",  # that of an older checkpoint, whose payload is still there; reached after each
    "left-over-removed",  # a temporary, or a payload that no manifest names; reached after each
)


class SummedFile:
    """What torch.save writes to: counts and sums the bytes on their way to a file.

    torch calls write() from C++, ignores what it returns, and makes "unexpected pos 64 vs 0" of whatever it raises, be
    it a full disk or Ctrl-C. So the first error is kept here, to be raised once torch is done; the rest goes nowhere.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.error: Optional[BaseException] = None
        self.size_bytes = 0
        self._file = file
        self._sum = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._sum.hexdigest()

    def write(self, piece: Union[bytes, memoryview]) -> int:
        if self.error is None:
            try:
                self._file.write(piece)
                self._sum.update(piece)
                self.size_bytes += len(piece)
                reach("payload-partly-written")
            except BaseException as error:  # noqa: BLE001
                self.error = error
        return len(piece)

    def flush(self) -> None:
        """torch asks for it; synced_file does it."""


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


def sha256_of(file: BinaryIO) -> str:
    """The checksum of what is left to read."""
    checksum = hashlib.sha256()
    for piece in iter(lambda: file.read(1 << 20), b""):
        checksum.update(piece)
    return checksum.hexdigest()
