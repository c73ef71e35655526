"""All processes at one time, with what tells whose they are. Threads that ask at the same time share one census: each
of them reads some files of every process, and would keep the others and the event loop waiting."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

from weft.core.value import value
from weft.system import processes
from weft.system.processes import Process

MARK = "WEFT_TASK"
_PREFIX = f"{MARK}=".encode()


@value
class Known:
    """A process, the marks in its environment, and where its standard output and error go."""

    process: Process
    marks: frozenset[str]
    outputs: frozenset[str]


class Census:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_s = -1.0
        self._found: list[Known] = []

    def take(self) -> list[Known]:
        """All processes, looked at after this was called."""
        asked_s = time.monotonic()
        with self._lock:
            if self._begun_s <= asked_s:
                self._begun_s = time.monotonic()
                self._found = [
                    Known(each, marks_of(each.pid), _outputs_of(each.pid)) for each in processes.every_process()
                ]
            return self._found


CENSUS = Census()


def marks_of(pid: int) -> frozenset[str]:
    """The tasks its environment names: by itself one, but a job may write any."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            environment = file.read()
    except OSError:  # another user's, or gone
        return frozenset()
    if _PREFIX not in environment:
        return frozenset()
    found = [each[len(_PREFIX) :] for each in environment.split(b"\0") if each.startswith(_PREFIX)]
    return frozenset(os.fsdecode(each) for each in found)


def _outputs_of(pid: int) -> frozenset[str]:
    found = set()
    for number in (1, 2):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115
    return frozenset(found)
