"""The kernel's idle class: on cpu devices, a task in it computes only while nobody else wants the core.

Where the kernel groups tasks by session (autogroup) the class counts only within a group, and each task that the node
launches has a session of its own; so the group's weight is lowered to the least as well.

Anybody may put his own processes there. To take them back the kernel asks for CAP_SYS_NICE, or for the process to have
an RLIMIT_NICE of 20 or more, which by default it does not; so `why_not` is to be asked first.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from weft.node import processes

CAP_SYS_NICE = 23
NICE_AS_BEFORE = 20  # as RLIMIT_NICE counts: 20 - nice, and nice is 0
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
LEAST, USUAL = 19, 0


def why_not(pids: Iterable[int]) -> str:
    """Why these should not be put into the idle class: it could not be undone. Empty if they may."""
    if not hasattr(os, "SCHED_IDLE"):
        return "this system has no idle class"
    if _has_capability() or all(_may_go_back(pid) for pid in pids):
        return ""
    return "what is put into the idle class could not be taken back: that needs CAP_SYS_NICE, or ulimit -e 20 for jobs"


def idle(roots: Iterable[int], but_not: Iterable[int] = ()) -> set[int]:
    """Put the whole family of `roots` into the idle class; which threads these are. New ones are born into it."""
    return _schedule(roots, os.SCHED_IDLE, LEAST, but_not)


def undo(roots: Iterable[int]) -> set[int]:
    """Take it back: the usual class, the usual weight; which threads this succeeded for."""
    return _schedule(roots, os.SCHED_OTHER, USUAL, ())


def _schedule(roots: Iterable[int], policy: int, weight: int, but_not: Iterable[int]) -> set[int]:
    roots = set(roots)
    spared = _sessions({os.getpid(), *but_not})
    sessions = {session for session in _sessions(processes.family(roots)) if session not in spared}
    done = _for_all_threads(roots, lambda thread: os.sched_setscheduler(thread, policy, os.sched_param(0)))
    if _is_grouped():
        for session in sessions:
            with suppress(OSError):  # its leader may have ended; the class alone is better than nothing
                Path(f"/proc/{session}/autogroup").write_text(str(weight))
    return done


def _for_all_threads(roots: Collection[int], act: Callable[[int], None]) -> set[int]:
    """Threads and processes that come in between are caught up with."""
    seen, done = set[int](), set[int]()
    while more := threads(processes.family(roots)) - seen:
        for thread in more:
            with suppress(ProcessLookupError, PermissionError):
                act(thread)
                done.add(thread)
        seen |= more
    return done


def threads(pids: Collection[int]) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            found |= {int(each) for each in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208 - numbers, not paths
    return found


def _sessions(pids: Iterable[int]) -> set[int]:
    found = [processes.process(pid) for pid in pids]
    return {each.session for each in found if each is not None}


def _is_grouped() -> bool:
    try:
        return AUTOGROUP.read_text().strip() == "1"
    except OSError:
        return False


def _has_capability() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> CAP_SYS_NICE & 1)


def _may_go_back(pid: int) -> bool:
    try:
        soft, _ = resource.prlimit(pid, resource.RLIMIT_NICE)
    except OSError:
        return False
    return soft == resource.RLIM_INFINITY or soft >= NICE_AS_BEFORE
