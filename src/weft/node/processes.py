"""Processes of this machine, from /proc: who lives, who belongs to a task, stopping and continuing them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from weft.core.value import value

POLL_S = 0.001
ENDED = ("Z", "X")


@value
class Process:
    """One process as /proc/PID/stat shows it. `start` tells it from a later one with the same number."""

    pid: int
    state: str
    parent: int
    group: int
    start: int


def process(pid: int) -> Process | None:
    """What is known of a process; None if there is none of that number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return Process(pid, fields[0], int(fields[1]), int(fields[2]), int(fields[19]))
    except (OSError, IndexError, ValueError):
        return None


def is_alive(pid: int, start: int) -> bool:
    """Whether this very process still runs; one that only waits for its parent to notice its end does not."""
    found = process(pid) if pid else None
    return found is not None and found.start == start and found.state not in ENDED


def family(roots: Iterable[int]) -> set[int]:
    """These processes, the groups they lead, and all descendants: torchrun puts each rank into a session of its own."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    everybody = {pid: found for pid in numbers if (found := process(pid))}
    roots = set(roots)
    members = {pid for pid, found in everybody.items() if pid in roots or found.group in roots}
    while more := {pid for pid, found in everybody.items() if found.parent in members} - members:
        members |= more
    return {pid for pid in members if everybody[pid].state not in ENDED}


def stop(roots: Iterable[int]) -> set[int]:
    """Stop the whole family where it stands; which processes these are. Forks in the meantime are caught up with."""
    roots = set(roots)
    stopped: set[int] = set()
    while more := family(roots) - stopped:
        _signal(more, signal.SIGSTOP)
        stopped |= more
    while any(_still_runs(pid) for pid in stopped):  # a signal is taken when its process next leaves the kernel
        time.sleep(POLL_S)
    return stopped


def go_on(roots: Iterable[int]) -> None:
    """Let the whole family go on."""
    _signal(family(roots), signal.SIGCONT)


def _still_runs(pid: int) -> bool:
    found = process(pid)
    return found is not None and found.state in ("R", "S")


def _signal(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
