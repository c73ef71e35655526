"""How often the kernel has killed for want of memory. It sends SIGKILL, as anybody may, so only its counters tell.

A shepherd loads this, so it loads next to nothing.
"""

from __future__ import annotations

import os

TASK, AROUND, MACHINE = "task", "cgroup", "machine"
"""Whose memory had run out: the task's own cgroup's, that of the cgroup weft is in, or the machine's."""
MOST_BYTES = 1 << 16


def counts(counters: dict[str, str]) -> dict[str, int]:
    """What each counter file says; a file that is not there counts nothing."""
    return {scope: _count(path) for scope, path in counters.items()}


def risen(before: dict[str, int], after: dict[str, int]) -> str:
    """The innermost scope in which something was killed meanwhile; empty if nothing was."""
    return next((scope for scope, count in after.items() if count > before.get(scope, 0)), "")


def _count(path: str) -> int:
    """`oom_kill N` stands in memory.events, in memory.oom_control of cgroups v1, and in /proc/vmstat."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        for line in os.read(fd, MOST_BYTES).splitlines():
            if line.startswith(b"oom_kill "):
                return int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    finally:
        os.close(fd)
    return 0
