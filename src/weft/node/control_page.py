"""A task's control page, for all but the task itself: read and written through its descriptor, never through a mapping.

The job may truncate the file at any time. Then a load from a mapping of it ends the process with SIGBUS, while a read
from a descriptor comes out short. Only the kernel's futex calls need an address; they fail with EFAULT there.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Callable
from contextlib import suppress

from weft.node.snapshot import DamagedPageError, Snapshot, checked
from weft.runtime.page import layout
from weft.runtime.page.futex import wait_at, wake_at
from weft.runtime.page.page_file import claim_file, claimant_of, create_file, open_file

WORD = struct.Struct("=Q")
LIBRARY = ctypes.CDLL(None, use_errno=True)
LIBRARY.mmap.restype = ctypes.c_void_p
LIBRARY.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
)
LIBRARY.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
NOT_MAPPED = ctypes.c_void_p(-1).value


class Words:
    """Single words of a page, as they are: not checked. To read them for a decision, take a snapshot."""

    def __init__(self, path: str, fd: int) -> None:
        self._path, self._fd = path, fd

    def __getitem__(self, word: int) -> int:
        try:
            found = os.pread(self._fd, WORD.size, word * WORD.size)
        except OSError as error:
            raise DamagedPageError(self._path, f"it cannot be read: {error.strerror}") from error
        if len(found) < WORD.size:
            raise DamagedPageError(self._path, "it was truncated")
        return int(WORD.unpack(found)[0])

    def __setitem__(self, word: int, number: int) -> None:
        try:
            os.pwrite(self._fd, WORD.pack(number), word * WORD.size)
        except OSError as error:  # the job has punched a hole into it, say, and the file system is full
            raise DamagedPageError(self._path, f"it cannot be written to: {error.strerror}") from error


class ControlPage:
    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.words = Words(path, fd)

    def look(self) -> Snapshot:
        """What it says now; DamagedPageError if that cannot be."""
        try:
            content = os.pread(self.fd, layout.PAGE_BYTES, 0)
        except OSError as error:
            raise DamagedPageError(self.path, f"it cannot be read: {error.strerror}") from error
        return checked(self.path, content)

    def claim(self) -> bool:
        return claim_file(self.fd)

    def claimant(self) -> int:
        return claimant_of(self.fd)

    def wait(self, word: int, seen: int, timeout_s: float) -> None:
        """Return once the word is no longer `seen`, after the timeout, after a signal, or for no reason at all."""
        if self.words[word] == seen:
            self._at(word, lambda address: wait_at(address, seen, timeout_s))

    def wake(self, word: int) -> None:
        self._at(word, wake_at)

    def _at(self, word: int, act: Callable[[int], None]) -> None:
        """With an address of this word for the kernel. Mapped for the call alone, nothing here can load from it."""
        address = LIBRARY.mmap(None, layout.PAGE_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, self.fd, 0)
        if address in (None, NOT_MAPPED):
            raise DamagedPageError(self.path, f"it cannot be mapped: {os.strerror(ctypes.get_errno())}")
        try:
            act(address + word * WORD.size)
        finally:
            LIBRARY.munmap(address, layout.PAGE_BYTES)

    def close(self) -> None:
        """Let go of the page, and of the claim."""
        with suppress(OSError):
            os.close(self.fd)


def create_page(path: str, words: dict[int, int] | None = None) -> ControlPage:
    """A new page with these words, for its owner alone. It appears whole, or FileExistsError is raised."""
    return ControlPage(path, create_file(path, words))


def open_control_page(path: str) -> ControlPage:
    """The page at `path`; raises PageError if there is none, or one of a version not known here."""
    return ControlPage(path, open_file(path))
