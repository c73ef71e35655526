"""Waiting for a word of a shared page to change: no poll and no thread, where the system offers it."""

import ctypes
import platform
import time
from typing import Optional

from .page_file import Page

WAIT, WAKE = 0, 1
ALL_WAITERS = 2**31 - 1
CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
POLL_S = 0.001
SYSTEM_CALL = CALLS.get(platform.machine())
LIBRARY = ctypes.CDLL(None)


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Waiter:
    """Waits for one word of a mapped page to change, and wakes other waiters. Only the word's lower half is watched."""

    def __init__(self, page: Page, word: int) -> None:
        self.words = page.words
        self.word = word
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(page.map, word * 8))

    def wait(self, seen: int, timeout_s: float) -> None:
        """Return once the word is no longer `seen`, after the timeout, after a signal, or spuriously."""
        if self.words[self.word] == seen:
            wait_at(self._address, seen, timeout_s)

    def wake(self) -> None:
        wake_at(self._address)


def wait_at(address: int, seen: int, timeout_s: float) -> None:
    """Until the half word at this address is not the lower half of `seen`. The kernel reads it, so an address without
    memory behind it is an error that is passed over here, and no signal."""
    if SYSTEM_CALL is None:
        time.sleep(min(timeout_s, POLL_S))
        return
    _futex(address, WAIT, seen & 0xFFFFFFFF, _Timespec(int(timeout_s), int(timeout_s % 1 * 1e9)))


def wake_at(address: int) -> None:
    if SYSTEM_CALL is not None:
        _futex(address, WAKE, ALL_WAITERS, None)


def _futex(address: int, operation: int, value: int, timeout: Optional[_Timespec]) -> None:
    LIBRARY.syscall(
        ctypes.c_long(SYSTEM_CALL or 0),
        ctypes.c_void_p(address),
        ctypes.c_int(operation),
        ctypes.c_uint(value),
        ctypes.byref(timeout) if timeout else None,
        None,
        ctypes.c_int(0),
    )
