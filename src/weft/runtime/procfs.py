"""What /proc/PID/stat says of a process. A shepherd loads this, so it loads next to nothing itself."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

STATE, PARENT, GROUP, SESSION, START = 0, 1, 2, 3, 19


def fields(pid: int) -> "List[bytes]":
    """The fields after the name, which may hold anything; none if there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []


def children(pid: int) -> "List[int]":
    """Its children, as the kernel lists them by thread; none where it has no such lists."""
    found = []  # type: List[int]
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, thread), "rb") as listed:
                found += map(int, listed.read().split())
    except OSError:
        pass
    return found


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if there is no such process."""
    found = fields(pid)
    return int(found[START]) if len(found) > START else 0
