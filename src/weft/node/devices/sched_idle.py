"""The kernel's idle class: on cpu devices, a task in it computes only while no other process wants the core.

Where the kernel groups tasks by session (autogroup) the class counts only within a group, and each task that the node
launches has a session of its own; so the group's weight is lowered to the least as well.

Any user may put their own processes there. To take them back the kernel asks for CAP_SYS_NICE, or for the process to
have an RLIMIT_NICE of 20 or more, which by default it does not; so `why_not` is to be asked first. The weight of a
session any user may restore; where it counts, `lighten` does nearly as well, at 15 to 1,024.
"""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from weft.system import processes

CAP_SYS_NICE = 23
NICE_AS_BEFORE = 20  # as RLIMIT_NICE counts: 20 - nice, and nice is 0
AUTOGROUP = Path("/proc/sys/kernel/sched_autogroup_enabled")
LEAST, USUAL = 19, 0
ALL_CONTROL_GROUPS = "cgroup:[4026531835]"
"""The first namespace, as the kernel names it. In any other one, paths of control groups do not say where they are."""
CONTROL_GROUPS = Path("/sys/fs/cgroup")
AGAIN_S, TRIES = 0.1, 20

_put_off: dict[int, int] = {}
"""Sessions and what they are to weigh, which the kernel did not take yet: a user other than root may change weights ten
times a second, all users together."""


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


def lighten(roots: Iterable[int], but_not: Iterable[int] = ()) -> bool:
    """The least weight for the sessions of their whole family, and no other class. Whether that counts: not where a
    control group divides the cores, as in containers, nor for a process in the session of spared ones."""
    roots = set(roots)
    own = _sessions_of_their_own(roots, but_not)
    can_count = bool(own) and own == _sessions(processes.family(roots))
    if not can_count or not all(map(_is_in_no_control_group, roots)):
        return False
    if _weigh(own, LEAST):
        return True
    _weigh(own, USUAL)  # in part it would be slow for good: no record would say that there is something to undo
    return False


def undo(roots: Iterable[int]) -> set[int]:
    """Take it back: the usual class, the usual weight; which threads this succeeded for."""
    return _schedule(roots, os.SCHED_OTHER, USUAL, ())


def catch_up() -> bool:
    """Try again what the kernel put off, a tenth of a second later or more; whether something still is."""
    for session, weight in list(_put_off.items()):
        _is_weighed(session, weight)
    return bool(_put_off)


async def caught_up() -> None:
    """When the kernel has taken all that it put off, or after a while: others may change weights all the time."""
    for _ in range(TRIES):
        if not catch_up():
            return
        await asyncio.sleep(AGAIN_S)


def _schedule(roots: Iterable[int], policy: int, weight: int, but_not: Iterable[int]) -> set[int]:
    roots = set(roots)
    sessions = _sessions_of_their_own(roots, but_not)
    done = for_all_threads(roots, lambda thread: os.sched_setscheduler(thread, policy, os.sched_param(0)))
    _weigh(sessions, weight)
    return done


def _sessions_of_their_own(roots: set[int], but_not: Iterable[int]) -> set[int]:
    spared = _sessions({os.getpid(), *but_not})
    return {session for session in _sessions(processes.family(roots)) if session not in spared}


def _weigh(sessions: Iterable[int], weight: int) -> bool:
    """Whether all of them weigh as much, or soon will. One's leader may have ended; the class alone is better than
    nothing."""
    done = [_is_weighed(session, weight) for session in sessions] if _is_grouped() else [False]
    return all(done)


def _is_weighed(session: int, weight: int) -> bool:
    """Now, or as soon as the kernel allows it."""
    _put_off.pop(session, None)
    try:
        Path(f"/proc/{session}/autogroup").write_text(str(weight))
    except BlockingIOError:
        _put_off[session] = weight
    except OSError:
        return False
    return True


def for_all_threads(roots: Collection[int], act: Callable[[int], None]) -> set[int]:
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


def _is_in_no_control_group(pid: int) -> bool:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
        return is_free_of_control_groups(lines, str(Path("/proc/self/ns/cgroup").readlink()))
    except OSError:
        return False


def is_free_of_control_groups(lines: Iterable[str], namespace: str) -> bool:
    """Of those that divide cores, by what /proc says: on version 2 a process below a group with a weight is in one."""
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
    own = next((path for controllers, path in paths.items() if "cpu" in controllers.split(",")), None)
    top = (paths.get("", "/") if own is None else own).split("/")[1]
    divides = bool(top) and (own is not None or (CONTROL_GROUPS / top / "cpu.weight").exists())
    return namespace == ALL_CONTROL_GROUPS and not divides


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
