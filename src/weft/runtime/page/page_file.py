"""One task's control page: created, opened, checked, claimed. layout.py names its words."""

import errno
import fcntl
import mmap
import os
import stat
import struct
from contextlib import suppress
from time import monotonic_ns
from typing import Dict, Optional

from ..procfs import start_time as start_time
from . import layout

MOST_RANKS = 1024
LIMITS = (layout.DUTY, layout.LIMIT, layout.LANE_BASE, layout.LANE_WEIGHT)
OF_THE_JOB = range(layout.CLAIM_PID, layout.PAGE_BYTES // 8)


class PageError(Exception):
    """This file cannot serve as a control page."""


class Page:
    """A control page mapped into this process. `words` is the page as 512 integers of 64 bits.

    Only the job maps its page: a process that maps a file which another one truncates dies of SIGBUS.
    """

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.map = mmap.mmap(fd, layout.PAGE_BYTES, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.words = memoryview(self.map).cast("Q")

    def claim(self) -> bool:
        return claim_file(self.fd)

    def claimant(self) -> int:
        return claimant_of(self.fd)

    def write_text(self, word: int, text: str, room: int) -> int:
        """Write at most `room` bytes of text; how many bytes it took."""
        encoded = text.encode("utf-8", "replace")[:room]
        self.map[word * 8 : word * 8 + len(encoded)] = encoded
        return len(encoded)

    @property
    def message(self) -> str:
        length = min(self.words[layout.MESSAGE_LENGTH], layout.MESSAGE_BYTES)
        return self.map[layout.MESSAGE * 8 : layout.MESSAGE * 8 + length].decode("utf-8", "replace")

    @message.setter
    def message(self, text: str) -> None:
        self.words[layout.MESSAGE_LENGTH] = self.write_text(layout.MESSAGE, text, layout.MESSAGE_BYTES)

    def close(self) -> None:
        """Let go of the page, and of the claim."""
        self.words.release()
        self.map.close()
        os.close(self.fd)


def claim_file(fd: int) -> bool:
    """Become the one process that writes the job's half. The claim ends with the process, however it ends.

    A POSIX record lock: forked children do not inherit it, and the kernel drops it with its owner.
    """
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def claimant_of(fd: int) -> int:
    """The pid of the process that holds the claim, 0 if none does (or this one)."""
    lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, lock))
    return 0 if kind == fcntl.F_UNLCK else int(pid)


def create(path: str, words: Optional[Dict[int, int]] = None) -> Page:
    """A new page with these words, private to its user. It appears whole, or FileExistsError is raised."""
    return Page(path, create_file(path, words))


def create_file(path: str, words: Optional[Dict[int, int]] = None) -> int:
    """The same, open and not mapped."""
    draft = os.path.join(os.path.dirname(path), ".weft-%d-%d" % (os.getpid(), monotonic_ns()))
    fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        # Really reserved: on a full file system this fails here, where a sparse file would end the job with SIGBUS
        # later.
        os.posix_fallocate(fd, 0, layout.PAGE_BYTES)
        os.pwrite(fd, _content(words or {}), 0)
        os.link(draft, path)
    except OSError:
        os.close(fd)
        raise
    finally:
        os.unlink(draft)
    return fd


def _content(words: Dict[int, int]) -> bytes:
    head = {
        layout.MAGIC: layout.PAGE_MAGIC,
        layout.VERSION: layout.PAGE_VERSION,
        layout.SIZE: layout.PAGE_BYTES,
        layout.DUTY: 100,
    }
    content = bytearray(layout.PAGE_BYTES)
    for word, number in {**head, **words}.items():
        struct.pack_into("=Q", content, word * 8, number)
    return bytes(content)


def open_page(path: str) -> Page:
    """The page at `path`, checked: raises PageError if it is none or of a version not known here."""
    fd = open_file(path)
    try:
        return Page(path, fd)
    except (OSError, ValueError) as error:
        os.close(fd)
        raise PageError("%s cannot be mapped as a control page: %s" % (path, error)) from error


def open_file(path: str) -> int:
    """The same, open and not mapped. Whatever is at `path`, this neither waits nor follows a link."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        why = getattr(error, "strerror", None) or error
        raise PageError("%s cannot be opened as a control page: %s" % (path, why)) from error
    try:
        _check(path, fd)
    except OSError as error:
        os.close(fd)
        raise PageError("%s cannot be read as a control page: %s" % (path, error.strerror)) from error
    except PageError:
        os.close(fd)
        raise
    return fd


def _check(path: str, fd: int) -> None:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise PageError("%s is not a control page: it is no regular file" % path)
    if os.geteuid() not in (0, status.st_uid):
        raise PageError("%s is not a control page of ours: it belongs to user %d" % (path, status.st_uid))
    head = os.pread(fd, 24, 0)
    if len(head) < 24:
        raise PageError("%s is not a control page: it has %d bytes" % (path, len(head)))
    magic, version, size = struct.unpack("=QQQ", head)
    if magic != layout.PAGE_MAGIC:
        raise PageError("%s is not a control page of weft" % path)
    if version not in layout.READABLE_VERSIONS:
        raise PageError("%s is a control page of version %d; this weft knows %d" % (path, version, layout.PAGE_VERSION))
    if size != layout.PAGE_BYTES or status.st_size < layout.PAGE_BYTES:
        raise PageError("%s is a damaged control page: %d bytes long" % (path, status.st_size))


def claimed_beside(path: str, number: int) -> str:
    """Where the page of a task's further rank is: torchrun's ranks share one task, and each needs a page."""
    return "%s.%d" % (path, number)


def claim_page(path: str) -> Page:
    """The page at `path`, or the first unclaimed one beside it, claimed for this process and cleared.

    The first process of a task that steps gets the task's page, further ones get pages beside it.
    """
    page = _claim_one(path)
    for word in OF_THE_JOB:
        page.words[word] = 0
    page.words[layout.CLAIM_START] = start_time(os.getpid())
    page.words[layout.CLAIM_PID] = os.getpid()
    return page


def _claim_one(path: str) -> Page:
    first = open_page(path)
    if first.claim():
        return first
    for number in range(1, MOST_RANKS):
        page = _open_or_make(claimed_beside(path, number), first)
        if page.claim():
            # A pause requested of the task applies to this rank too, as do the task's limits.
            for word in (*LIMITS, layout.RUN_TO, layout.REQUEST):
                page.words[word] = first.words[word]
            first.close()
            return page
        page.close()
    raise PageError("%s has %d claimed pages beside it" % (path, MOST_RANKS - 1))


def _open_or_make(path: str, first: Page) -> Page:
    if not os.path.exists(path):
        with suppress(FileExistsError):
            return create(path, {word: first.words[word] for word in range(layout.ATTEMPT, layout.CLAIM_PID)})
    return open_page(path)


class Metrics:
    """The metrics that a script reports, on its page: up to eight names, each with its last value."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._slots: Dict[str, int] = {}

    def set(self, name: str, value: float) -> None:
        """Names beyond the last free slot are dropped."""
        slot = self._slots.get(name, len(self._slots))
        if slot == layout.METRICS_LENGTH:
            return
        if name not in self._slots:
            self._slots[name] = slot
            self._page.write_text(_word(slot), name, layout.METRIC_NAME_BYTES)
        struct.pack_into("d", self._page.map, _word(slot) * 8 + layout.METRIC_NAME_BYTES, value)
        self._page.words[layout.METRICS_COUNT] = len(self._slots)


def _word(slot: int) -> int:
    return layout.METRICS + slot * layout.METRIC_WORDS
