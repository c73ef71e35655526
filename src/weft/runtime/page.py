"""One task's control page: made, opened, checked, claimed. The words themselves are named in layout.py."""

import errno
import fcntl
import mmap
import os
import struct
from time import monotonic_ns
from typing import Dict, Optional

from . import layout
from .procfs import start_time as start_time


class PageError(Exception):
    """This file cannot serve as a control page."""


class Page:
    """A control page mapped into this process. `words` is the page as 512 integers of 64 bits."""

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self.fd = fd
        self.map = mmap.mmap(fd, layout.PAGE_BYTES, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self.words = memoryview(self.map).cast("Q")

    def claim(self) -> bool:
        """Become the one process that writes the job's half. The claim ends with the process, however it ends.

        A POSIX record lock: forked children do not inherit it, and the kernel drops it with its owner.
        """
        try:
            fcntl.lockf(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def claimant(self) -> int:
        """The pid of the process that holds the claim, 0 if none does (or this one)."""
        lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = struct.unpack("hhqqi4x", fcntl.fcntl(self.fd, fcntl.F_GETLK, lock))
        return 0 if kind == fcntl.F_UNLCK else int(pid)

    def text(self, word: int, length: int) -> str:
        start = word * 8
        return self.map[start : start + length].decode("utf-8", "replace")

    def write_text(self, word: int, text: str, room: int) -> int:
        """Write at most `room` bytes of text; how many bytes it took."""
        encoded = text.encode("utf-8", "replace")[:room]
        self.map[word * 8 : word * 8 + len(encoded)] = encoded
        return len(encoded)

    @property
    def message(self) -> str:
        return self.text(layout.MESSAGE, min(self.words[layout.MESSAGE_LENGTH], layout.MESSAGE_BYTES))

    @message.setter
    def message(self, text: str) -> None:
        self.words[layout.MESSAGE_LENGTH] = self.write_text(layout.MESSAGE, text, layout.MESSAGE_BYTES)

    def close(self) -> None:
        """Let go of the page, and of the claim."""
        self.words.release()
        self.map.close()
        os.close(self.fd)


def create(path: str, words: Optional[Dict[int, int]] = None) -> Page:
    """A new page with these words, for its owner alone. It appears whole, or FileExistsError is raised."""
    draft = os.path.join(os.path.dirname(path), ".weft-%d-%d" % (os.getpid(), monotonic_ns()))
    page = _draft(draft)
    for word, number in (words or {}).items():
        page.words[word] = number
    try:
        os.link(draft, path)
    except OSError:
        page.close()
        raise
    finally:
        os.unlink(draft)
    page.path = path
    return page


def _draft(path: str) -> Page:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        # Really reserved: on a full file system this fails here, where a sparse file would end the job with SIGBUS
        # later.
        os.posix_fallocate(fd, 0, layout.PAGE_BYTES)
        page = Page(path, fd)
    except OSError:
        os.close(fd)
        os.unlink(path)
        raise
    page.words[layout.SIZE] = layout.PAGE_BYTES
    page.words[layout.VERSION] = layout.PAGE_VERSION
    page.words[layout.DUTY] = 100
    page.words[layout.MAGIC] = layout.PAGE_MAGIC
    return page


def open_page(path: str) -> Page:
    """The page at `path`, checked: raises PageError if it is none or of a version not known here."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise PageError("%s cannot be opened as a control page: %s" % (path, error.strerror)) from error
    try:
        _check(path, fd)
        return Page(path, fd)
    except (OSError, ValueError) as error:
        os.close(fd)
        raise PageError("%s cannot be mapped as a control page: %s" % (path, error)) from error
    except PageError:
        os.close(fd)
        raise


def _check(path: str, fd: int) -> None:
    head = os.pread(fd, 24, 0)
    if len(head) < 24:
        raise PageError("%s is not a control page: it has %d bytes" % (path, len(head)))
    magic, version, size = struct.unpack("=QQQ", head)
    if magic != layout.PAGE_MAGIC:
        raise PageError("%s is not a control page of weft" % path)
    if version not in layout.READABLE_VERSIONS:
        raise PageError("%s is a control page of version %d; this weft knows %d" % (path, version, layout.PAGE_VERSION))
    if size != layout.PAGE_BYTES or os.fstat(fd).st_size < layout.PAGE_BYTES:
        raise PageError("%s is a damaged control page: %d bytes long" % (path, os.fstat(fd).st_size))


def claimed_beside(path: str, number: int) -> str:
    """Where the page of a task's further rank is: torchrun's ranks share one task, and each needs a page."""
    return "%s.%d" % (path, number)
