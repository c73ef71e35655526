"""What this process holds, and giving back what it holds in vain."""

import ctypes
import os
import sys
from contextlib import suppress
from typing import Any

from . import layout


def finish_device_work() -> None:
    """Kernels are launched ahead of time: without this a paused job would go on computing."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.synchronize()


def drop_caches() -> None:
    """Give back what is kept only to be used again."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.empty_cache()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)


def note_resident_bytes(words: Any) -> None:
    """Write to the page what the process takes of the host's memory; left as it was if that cannot be learnt now."""
    with suppress(OSError), open("/proc/self/statm", "rb") as statm:
        words[layout.HOST] = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
