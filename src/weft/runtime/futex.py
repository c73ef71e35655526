"""Waiting for a word of a shared page to change: no poll and no thread, where the system offers it."""

import ctypes
import platform
import time
from typing import Optional

from .page import Page

WAIT, WAKE = 0, 1
EVERYBODY = 2**31 - 1
CALLS = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}
POLL_S = 0.001


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class Waiter:
    """Waits for one word of a page to change, and wakes those who do. Only the word's lower half is watched."""

    def __init__(self, page: Page, word: int) -> None:
        self.words = page.words
        self.word = word
        self._call = CALLS.get(platform.machine())
        self._syscall = ctypes.CDLL(None).syscall
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(page.map, word * 8))

    def wait(self, seen: int, timeout_s: float) -> None:
        """Return once the word is no longer `seen`, after the timeout, after a signal, or for no reason at all."""
        if self.words[self.word] != seen:
            return
        if self._call is None:
            time.sleep(min(timeout_s, POLL_S))
            return
        self._futex(WAIT, seen & 0xFFFFFFFF, _Timespec(int(timeout_s), int(timeout_s % 1 * 1e9)))

    def wake(self) -> None:
        if self._call is not None:
            self._futex(WAKE, EVERYBODY, None)

    def _futex(self, operation: int, value: int, timeout: Optional[_Timespec]) -> None:
        self._syscall(
            ctypes.c_long(self._call or 0),
            ctypes.c_void_p(self._address),
            ctypes.c_int(operation),
            ctypes.c_uint(value),
            ctypes.byref(timeout) if timeout else None,
            None,
            ctypes.c_int(0),
        )
