"""Which processes belong to a task. What a page or a record says is no proof: the job can write both.

Proof is what the job cannot give to a process that is not its own: the environment it was started with, its parent,
a lock that it holds. The census reads all processes at one time; threads that ask at the same time share one, because
each reads some files of every process and would delay the others and the event loop.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.core.value import value
from weft.system import processes
from weft.system.processes import Process

if TYPE_CHECKING:
    from weft.node.task.control_page import ControlPage

MARK = "WEFT_TASK"
_PREFIX = f"{MARK}=".encode()

PAGE = "WEFT_PAGE"


@value
class ProcessEntry:
    """A process, the marks in its environment, and where its standard output and error go."""

    process: Process
    marks: frozenset[str]
    outputs: frozenset[str]


class Census:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun_s = -1.0
        self._found: list[ProcessEntry] = []

    def take(self) -> list[ProcessEntry]:
        """All processes, looked at after this was called."""
        asked_s = time.monotonic()
        with self._lock:
            if self._begun_s <= asked_s:
                self._begun_s = time.monotonic()
                self._found = [
                    ProcessEntry(each, marks_of(each.pid), _outputs_of(each.pid)) for each in processes.every_process()
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


@value
class KnownProcesses:
    """What the coordinator knows of a task's processes, whatever its page says: shepherds, which adopt its orphans,
    and leaders that were verified before."""

    shepherds: frozenset[int] = frozenset()
    leaders: frozenset[tuple[int, int]] = frozenset()


def environ_of(pid: int) -> bytes:
    """What a process was started with, framed by NULs; nothing where that cannot be read."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:  # noqa: PTH123
            return b"\0" + file.read() + b"\0"
    except OSError:
        return b""


def was_started_with(pid: int, variable: str, text: str) -> bool:
    return os.fsencode(f"\0{variable}={text}\0") in environ_of(pid)


def verified_shepherd(pid: int, start: int, mark: str) -> bool:
    """Whether this is a shepherd of the task with this mark: it keeps the environment that it was spawned with."""
    return processes.is_alive(pid, start) and was_started_with(pid, MARK, mark)


def verified_leader(pid: int, start: int, page: str, shepherds: frozenset[int]) -> Process | None:
    """The process that a page names as its task's leader, if it is one: started for this page, or by a shepherd."""
    found = processes.process(pid) if pid else None
    if found is None or found.start != start or found.state in processes.ENDED:
        return None
    return found if found.parent in shepherds or was_started_with(pid, PAGE, page) else None


def was_launched_by(found: Process, launcher: int, start: int, page: ControlPage) -> bool:
    """Whether `weft exec` launched this process: that is its parent, and has the page open.

    Between fork and exec the process has the marks of its launcher, afterwards that of its page. One with any other
    mark is another's.
    """
    is_launcher = launcher == found.parent and launcher != os.getpid() and processes.is_alive(launcher, start)
    if not is_launcher:
        return False
    accepted = {*_marks(environ_of(launcher)), os.fsencode(f"{PAGE}={page.path}")}
    return accepted.issuperset(_marks(environ_of(found.pid))) and _has_open(launcher, os.fstat(page.fd))


def _marks(environ: bytes) -> set[bytes]:
    """The variables that say which task a process was started for."""
    return {each for each in environ.split(b"\0") if each.startswith((f"{MARK}=".encode(), f"{PAGE}=".encode()))}


def _has_open(pid: int, page: os.stat_result) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(_is_same(f"{folder}/{name}", page) for name in os.listdir(folder))  # noqa: PTH208 - numbers
    except OSError:
        return False


def _is_same(path: str, page: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), page)  # noqa: PTH116
    except OSError:
        return False
