"""A task's control page: read and written through its descriptor, made and removed; never through a mapping.

The job may truncate the file at any time. Then a load from a mapping of it ends the process with SIGBUS, while a read
from a descriptor comes out short. Only the kernel's futex calls need an address; they fail with EFAULT there.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count, takewhile
from pathlib import Path
from time import monotonic, sleep

from weft.core.errors import InputError, WeftError
from weft.node.task.page_snapshot import DamagedPageError, Snapshot, checked
from weft.runtime.page import layout
from weft.runtime.page.futex import wait_at, wake_at
from weft.runtime.page.page_file import (
    MOST_RANKS,
    PageError,
    claim_file,
    claimant_of,
    claimed_beside,
    create_file,
    open_file,
    start_time,
)
from weft.system.files import discard, file_system, is_in_memory
from weft.system.processes import is_alive
from weft.system.runtime_dir import ELSEWHERE, private_folder

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

LOCK_WAIT_S, LOCK_POLL_S = 5.0, 0.01
FULL = (errno.ENOSPC, errno.EDQUOT)


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


@contextmanager
def new_task_page(path: Path | None) -> Iterator[ControlPage]:
    """A new page, closed afterwards. One without a path goes; one with a path stays and shows how the task ended."""
    page = make_page(path)
    try:
        yield page
    finally:
        if path is None:
            remove_page(Path(page.path))
        page.close()


def make_page(path: Path | None) -> ControlPage:
    """A new page, which this process will launch the first attempt with. Without a path, in a folder of ours.

    What is at `path` already is replaced if it is the page of a task that has ended, and left alone otherwise.
    """
    if path is None:
        return _private_page()
    path = path.resolve()
    if not is_in_memory(path.parent):
        raise InputError(
            f"{path} would be on {file_system(path.parent)}; a control page must be in memory, "
            "because a disk could make each step wait",
            ELSEWHERE,
        )
    while True:
        with suppress(FileExistsError):
            return _new_page(path)
        _clear(path)


def remove_page(path: Path) -> None:
    """Remove a task's page and those of its further ranks. Processes that have them open keep what they see."""
    for each in [*further_pages(path), path]:  # its own last: as long as it is there, no new one is made
        discard(each)


def further_pages(path: Path) -> list[Path]:
    """The pages of a task's further ranks, beside its first: FILE.1, FILE.2. A stranger's file is not among them."""
    beside = (Path(claimed_beside(str(path), number)) for number in range(1, MOST_RANKS))
    return list(takewhile(_is_page, beside))


def step_of_leaving(path: Path) -> int | None:
    """The step whose checkpoint every rank of the task left with, on request; None if that is not why it ended."""
    claimed = []
    for each in [path, *further_pages(path)]:
        with suppress(PageError, DamagedPageError), _opened(each) as page:
            if (look := page.look()).is_claimed:
                claimed.append((look.state == layout.RankState.LEAVING, look.words[layout.CHECKPOINT]))
    return claimed[0][1] - 1 if claimed and all(all(one) for one in claimed) else None


def _private_page() -> ControlPage:
    folder = private_folder()
    # Nothing is replaced here, even if it seems unused: containers may share /dev/shm, but not process numbers.
    names = chain([f"exec-{os.getpid()}.page"], (f"exec-{os.getpid()}-{number}.page" for number in count(2)))
    while True:
        with suppress(FileExistsError):
            return _new_page(folder / next(names))


def _new_page(path: Path) -> ControlPage:
    """A page that names its launcher, which shows that it is in use."""
    launcher = {layout.LAUNCHER_PID: os.getpid(), layout.LAUNCHER_START: start_time(os.getpid())}
    try:
        return create_page(str(path), {layout.ATTEMPT: 1, **launcher})
    except FileExistsError:
        raise
    except OSError as error:
        raise _not_made(path, error) from error


def _not_made(path: Path, error: OSError) -> WeftError:
    if error.errno in FULL:
        return WeftError(f"no room for the control page {path}: {path.parent} is full", f"free some, or {ELSEWHERE}")
    if error.errno == errno.ENOENT:
        return InputError(f"the control page {path} cannot be made: there is no folder {path.parent}", ELSEWHERE)
    return InputError(f"the control page {path} cannot be made: {error.strerror}", ELSEWHERE)


def _clear(path: Path) -> None:
    """Remove the page of a task that has ended; refuse to touch anything else."""
    try:
        with _opened(path) as page:
            # If two processes find the same ended page, the second must not remove what the first put in its place.
            _lock(page, path)
            if _is_at(path, page):
                _refuse_if_used(path)
                remove_page(path)
    except PageError as error:
        if not isinstance(error.__cause__, FileNotFoundError):  # else it has just been removed
            raise InputError(str(error), f"it is left as it was; {ELSEWHERE}") from error
    except OSError as error:
        raise _not_made(path, error) from error


def _lock(page: ControlPage, path: Path) -> None:
    """Removing a page takes a moment; a lock that is held for longer has another purpose."""
    deadline = monotonic() + LOCK_WAIT_S
    while True:
        try:
            return fcntl.flock(page.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                raise InputError(f"{path} is locked by another process", ELSEWHERE) from None
        sleep(LOCK_POLL_S)


def _is_at(path: Path, page: ControlPage) -> bool:
    try:
        return os.path.samestat(os.fstat(page.fd), path.lstat())
    except FileNotFoundError:
        return False


def _refuse_if_used(path: Path) -> None:
    for each in [path, *further_pages(path)]:
        with _opened(each) as page:
            user = _user(page)
        if user:
            raise InputError(f"{each} is in use by {user}", f"wait for its end, or {ELSEWHERE}")


def is_used(path: Path) -> bool:
    """Whether a process that lives uses this page."""
    try:
        with _opened(path) as page:
            return bool(_user(page))
    except PageError:
        return False


def _user(page: ControlPage) -> str:
    """Which process still uses this page; empty if none does."""
    if claimant := page.claimant():
        return f"process {claimant}"
    with suppress(DamagedPageError):
        words = page.look().words
        if is_alive(words[layout.TASK_PID], words[layout.TASK_START]):
            return f"process {words[layout.TASK_PID]}"
        if not words[layout.TASK_PID] and is_alive(words[layout.LAUNCHER_PID], words[layout.LAUNCHER_START]):
            return f"process {words[layout.LAUNCHER_PID]}"  # it is about to start the task
    return "" if page.claim() else "a process of another container"


@contextmanager
def _opened(path: Path) -> Iterator[ControlPage]:
    page = open_control_page(str(path))
    try:
        yield page
    finally:
        page.close()


def _is_page(path: Path) -> bool:
    try:
        with _opened(path):
            return True
    except PageError:
        return False
