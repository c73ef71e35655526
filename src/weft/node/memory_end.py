"""Whether a task ended for want of memory, in words: what its exit code alone does not tell."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from weft.node.cgroups import OUR_CGROUPS, own_cgroups
from weft.node.oom_kills import AROUND, MACHINE, TASK
from weft.node.records import Record, Status
from weft.system.files import OPENING
from weft.system.mounts import MOUNTINFO, mounts_of

KILLED = 128 + 9
VMSTAT = "/proc/vmstat"
WHOSE = {
    TASK: "its cgroup's memory limit was reached",
    AROUND: "the memory limit of the cgroup that weft runs in was reached",
    MACHINE: "the machine, or a cgroup on it, ran out of memory",
}
TAIL_BYTES = 8 << 10
REFUSED = re.compile(rb"MemoryError|an(?:'t|not) allocate memory|std::bad_alloc|[Oo]ut of memory|OutOfMemory")
"""What programs print when memory is refused to them: Python, NumPy, PyTorch, C++, shells."""


def counters(cgroup: str) -> dict[str, str]:
    """The files in which the kernel counts OOM kills, of a task in this cgroup, the innermost first."""
    own = {TASK: f"{cgroup}/memory.events"} if cgroup else {}
    around = _around(MOUNTINFO.read_text(errors="replace"), OUR_CGROUPS.read_text(errors="replace"))
    return own | ({AROUND: around} if around else {}) | {MACHINE: VMSTAT}


@cache
def _around(mountinfo: str, own: str) -> str:
    """Of the cgroup that this process is in, or of the nearest one around it whose memory is counted."""
    folders = own_cgroups(mountinfo, own)
    files = [each / "memory.events" for folder in folders for each in (folder, *folder.parents)]
    return next(map(str, filter(Path.is_file, [*files, *_of_version_1(mountinfo, own)])), "")


def _of_version_1(mountinfo: str, own: str) -> list[Path]:
    lines = [line.split(":", 2) for line in own.splitlines()]
    paths = [Path(fields[2]) for fields in lines if len(fields) == 3 and "memory" in fields[1].split(",")]
    return [
        point / path.relative_to(root) / "memory.oom_control"
        for path in paths
        for root, point in mounts_of(mountinfo, "cgroup")
        if path.is_relative_to(root) and ".." not in path.parts
    ]


def explained(status: Status, record: Record, process_bytes: int, logs: Iterable[Path]) -> Status:
    """The same with a message, if it failed for want of memory and says nothing yet.

    A kill in the task's own cgroup explains any failure: a shell, or a parent of workers, ends with a code of its own.
    Elsewhere somebody else may have been killed, so only a task that ended by SIGKILL is taken to have been.
    """
    if status.message or not status.exit_code:
        return status
    peak = shown_bytes(status.peak_bytes) if status.peak_bytes else ""
    if status.oom == TASK or (status.oom and status.exit_code == KILLED):
        used = f"; it used up to {peak}" if peak else ""
        return replace(status, message=f"was killed by the kernel's OOM killer: {WHOSE[status.oom]}{used}")
    if process_bytes and any(REFUSED.search(_tail(path)) for path in logs):
        had = f"; it was refused more than the {peak} it used" if peak else ""
        said = f"ran out of memory: {_allowed(record.launch)}{had} (exit code {status.exit_code})"
        return replace(status, message=said)
    return status


def _allowed(launch: Mapping[str, int | None]) -> str:
    device_bytes = launch.get("memory_bytes") or 0
    host_bytes = (launch.get("limit_bytes") or device_bytes) - device_bytes
    asked = [f"--mem {shown_bytes(host_bytes)}"] if host_bytes else []
    asked += [f"--gpu-mem {shown_bytes(device_bytes)}"] if device_bytes else []
    return f"{' and '.join(asked)} {'allow' if len(asked) > 1 else 'allows'} each of its processes no more"


def shown_bytes(size_bytes: int) -> str:
    for unit, power in (("G", 30), ("M", 20)):
        if size_bytes >= 1 << power:
            return f"{size_bytes / (1 << power):.3g}{unit}"
    return f"{size_bytes / 1024:.3g}K"


def _tail(path: Path) -> bytes:
    """The end of what it printed; nothing, where the job has put something else in place of its log."""
    try:
        fd = os.open(path, OPENING)
    except OSError:
        return b""
    try:
        status = os.fstat(fd)
        return os.pread(fd, TAIL_BYTES, max(0, status.st_size - TAIL_BYTES)) if stat.S_ISREG(status.st_mode) else b""
    finally:
        os.close(fd)
