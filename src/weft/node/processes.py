"""The processes of a task: all that descend from its leader or are in its group, wherever they went since."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path


def family(leader: int) -> set[int]:
    """The leader, its process group, and their descendants. torchrun puts each rank into a session of its own."""
    parents: dict[int, int] = {}
    members = {leader}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError, IndexError, ValueError):
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            if int(fields[2]) == leader:
                members.add(int(entry.name))
    found = members & parents.keys()
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def stop(leader: int) -> int:
    """Stop the whole family where it stands; how many processes that were. Forks in the meantime are caught up with."""
    stopped: set[int] = set()
    while more := family(leader) - stopped:
        _signal(more, signal.SIGSTOP)
        stopped |= more
    while any(_runs(pid) for pid in stopped):  # a signal is taken when its process next runs or leaves the kernel
        time.sleep(0.001)
    return len(stopped)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"R", b"S")
    except OSError:
        return False


def go_on(leader: int) -> None:
    _signal(family(leader), signal.SIGCONT)


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
