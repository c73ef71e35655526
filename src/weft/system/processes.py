"""Processes of this machine, from /proc: which are alive, which belong to a task, stopping and continuing them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress

from weft.core.value import value
from weft.runtime import procfs

POLL_S = 0.001
ENDED = ("Z", "X")
CHILDREN_LIST = "/proc/thread-self/children"


@value
class Process:
    """One process as /proc/PID/stat shows it. `start` tells it from a later one with the same number."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    start: int


def process(pid: int) -> Process | None:
    """What is known of a process; None if there is none of that number."""
    fields = procfs.fields(pid)
    if len(fields) <= procfs.START:
        return None
    numbers = (procfs.PARENT, procfs.GROUP, procfs.SESSION, procfs.START)
    return Process(pid, fields[procfs.STATE].decode(), *(int(fields[each]) for each in numbers))


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process still runs; a zombie does not."""
    found = process(pid) if pid else None
    return found is not None and found.start == start and found.state not in ENDED


def family(roots: Iterable[int], among: Collection[Process] | None = None) -> set[int]:
    """These processes, the groups and sessions they lead, and all descendants: torchrun gives each rank a session.

    `among`: all processes as they were a moment ago, for callers that ask for several families.
    """
    roots, all_processes = set(roots), every_process() if among is None else among
    members = {each.pid for each in all_processes if roots & {each.pid, each.group, each.session}}
    members = with_descendants(members, all_processes)
    return {each.pid for each in all_processes if each.pid in members and each.state not in ENDED}


def every_process() -> list[Process]:
    """All processes of this machine that can be seen from here, as they are one after the other."""
    numbers = [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]  # noqa: PTH208 - ten times as fast
    return [found for pid in numbers if (found := process(pid))]


def children(parents: Iterable[int]) -> set[int]:
    parents = set(parents)
    return {each.pid for each in every_process() if each.parent in parents} if parents else set()


def listed_children(parent: int) -> set[int]:
    """Those in the kernel's own list, which is read at once; where it keeps none, as all processes say."""
    return set(procfs.children(parent)) if os.path.exists(CHILDREN_LIST) else children([parent])  # noqa: PTH110


def descendants(of: Iterable[int]) -> set[int]:
    """All processes that descend from these, zombies included, by the kernel's lists of children. That takes less time
    than a process lives; but a list that changes while it is read may lack some."""
    found: set[int] = set()
    parents = list(of)
    while parents:
        more = listed_children(parents.pop()) - found
        found |= more
        parents += more
    return found


def with_descendants(members: set[int], among: Iterable[Process]) -> set[int]:
    """These, their children, the children of those, and so on."""
    while more := {each.pid for each in among if each.parent in members} - members:
        members = members | more
    return members


def resident_bytes(pid: int) -> int:
    """What a process takes of the machine's memory; 0 if there is none of that number."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def stop(roots: Iterable[int]) -> set[int]:
    """Stop the whole family and return its processes, including those forked meanwhile."""
    roots = set(roots)
    stopped: set[int] = set()
    while more := family(roots) - stopped:
        _signal(more, signal.SIGSTOP)
        stopped |= more
    while any(_still_runs(pid) for pid in stopped):  # a signal is taken when its process next leaves the kernel
        time.sleep(POLL_S)
    return stopped


def go_on(roots: Iterable[int]) -> None:
    """Continue the whole family."""
    _signal(family(roots), signal.SIGCONT)


def _still_runs(pid: int) -> bool:
    found = process(pid)
    return found is not None and found.state in ("R", "S")


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
