"""Whether a process belongs to a task. What a page or a record says is no proof: the job can write both.

Proof is what the job cannot give to a process that is not its own: the environment it was started with, its parent,
a lock that it holds.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from weft.core.value import value
from weft.node.census import MARK
from weft.node.control_page import ControlPage
from weft.node.fencing import Tree, end_tree
from weft.system import processes
from weft.system.processes import Process

PAGE = "WEFT_PAGE"


@value
class Known:
    """What the coordinator knows of a task's processes, whatever its page says: shepherds, to whom its orphans come,
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


def tree_of_attempt(run: Path, job: str, attempt: int) -> Tree:
    """The processes of an attempt of which nothing but the name is known: all that have a mark of it."""
    prefix = os.fsencode(f"\0{MARK}={run}/{job}.{attempt}.")
    marks = set()
    for each in processes.every_process():
        _, found, rest = environ_of(each.pid).partition(prefix)
        if found:
            rank = rest.partition(b"\0")[0].decode("ascii", "replace")
            marks.add(f"{run}/{job}.{attempt}.{rank}")
    return Tree(marks=frozenset(marks))


def end_attempt(run: Path, job: str, attempt: int, cgroups: Collection[str]) -> None:
    """Kill what has a mark of it or is in these cgroups, and return when nothing is left."""
    end_tree(tree_of_attempt(run, job, attempt) | Tree(cgroups=frozenset(cgroups)))


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
