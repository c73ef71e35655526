"""What /proc/PID/stat says of a process. A shepherd loads this, so it loads next to nothing itself."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

STATE, PARENT, GROUP, SESSION, START = 0, 1, 2, 3, 19


def fields(pid: int) -> "List[bytes]":
    """The fields after the name; empty if there is no such process."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as stat:
            return stat.read().rpartition(b")")[2].split()
    except OSError:
        return []


def children(pid: int) -> "List[int]":
    """Its children, as the kernel lists them by thread; none where it has no such lists."""
    try:
        threads = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return []
    return [child for thread in threads for child in _of_thread(pid, thread)]


def _of_thread(pid: int, thread: str) -> "List[int]":
    try:
        with open("/proc/%d/task/%s/children" % (pid, thread), "rb") as listed:
            return [int(child) for child in listed.read().split()]
    except OSError:  # it has ended
        return []


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot; 0 if there is no such process."""
    found = fields(pid)
    return int(found[START]) if len(found) > START else 0
