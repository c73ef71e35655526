"""Starting a task: its environment, its output file, the orders for its shepherd, and the shepherd process.

A job's own output file (`--output`) is opened by the owner of the job, as everything of the job is. Nothing is waited
for, and only a regular file or /dev/null is written to: a fifo would stop the job, and a device may be anything.
"""

from __future__ import annotations

import fcntl
import marshal
import os
import pwd
import re
import signal
import socket
import stat
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.core.errors import WeftError
from weft.node.attempt.records import AttemptRecord
from weft.node.devices import preload
from weft.node.devices.device import Device, DeviceKind, DeviceLimits
from weft.node.fence import cgroups
from weft.node.fence.ownership import MARK
from weft.node.sharing import node_lanes
from weft.node.shepherd import shepherd
from weft.node.shepherd.supervise import MASTER, SLAVE
from weft.node.task.control_page import ControlPage, create_page, open_control_page
from weft.runtime.page import layout
from weft.runtime.page.page_file import PageError
from weft.system.files import kind_at, replace_file
from weft.system.home import Home

WEFT_VARIABLES = (
    "WEFT_ARRAY_INDEX",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
DEFAULTED = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]

PATTERN = re.compile(r"%([0-9]{0,2})([jAaxtu%])")


def mark_of(run: Path, record: AttemptRecord, rank: int) -> str:
    """What all processes of a task have in their environment, unless they choose another."""
    return f"{run}/{record.job}.{record.attempt}.{rank}"


def task_environment(
    home: Home, record: AttemptRecord, rank: int, kind: DeviceKind, devices: Sequence[Device], page: Path
) -> dict[str, str]:
    """The submitter's, and what weft and torchrun say."""
    submitted: Mapping[str, str] = record.launch["env"]
    if MARK in submitted:  # from within another job, whose rank this one has not
        submitted = {name: text for name, text in submitted.items() if name not in WEFT_VARIABLES}
    env = preload.environment(submitted, page, home.checkpoints(record.job))
    env |= kind.environment(devices, submitted, is_strict=bool(record.launch.get("strict")))
    env |= _threads(record.launch.get("cpus"), submitted, env)
    env |= node_lanes.environment(page.parent, record, kind, devices)
    env |= {"WEFT_JOB_ID": record.job, "WEFT_ATTEMPT": str(record.attempt), MARK: mark_of(page.parent, record, rank)}
    if record.launch.get("array_index") is not None:
        env["WEFT_ARRAY_INDEX"] = str(record.launch["array_index"])
    if record.tasks > 1:
        world = str(record.tasks)
        env |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(record.master_port)}
    return env


def _threads(cpus: int | None, submitted: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    """A job that declared CPU cores computes with so many threads, unless its owner or its device says fewer."""
    if not cpus:
        return {}
    chosen = env.get("OMP_NUM_THREADS") or submitted.get("OMP_NUM_THREADS", "")
    threads = min(cpus, int(chosen)) if chosen.isdecimal() and int(chosen) else cpus
    return {"WEFT_CPUS_PER_TASK": str(cpus), "OMP_NUM_THREADS": str(threads)}


def _errors(home: Home, record: AttemptRecord, rank: int) -> str:
    """With an output of its own, a job has both in that."""
    is_split = record.launch.get("split") and not record.launch.get("output")
    return str(home.log(record.job, rank, split=True)) if is_split else ""


def cgroup_of(record: AttemptRecord, rank: int) -> str:
    """Where all processes of a task are; empty if they are in no cgroup of their own."""
    return f"{record.cgroups}/{record.job}.{record.attempt}.{rank}" if record.cgroups else ""


def write_launch(
    home: Home, record: AttemptRecord, rank: int, kind: DeviceKind, devices: Sequence[Device], page: Path
) -> None:
    """What the shepherd is to do. Only the first task has input and a terminal."""
    wanted = record.launch
    orders: dict[str, Any] = {
        "boot_id": record.boot_id,
        "command": list(wanted["command"]),
        "cwd": wanted["cwd"],
        "umask": wanted["umask"],
        "env": task_environment(home, record, rank, kind, devices, page),
        "cores": kind.cores(devices),
        "limit_bytes": limits_of(record, kind).process_bytes,
        "page": str(page),
        "cgroup": cgroup_of(record, rank),
        "needs_cgroup": record.needs_cgroup,
        "oom_counters": cgroups.counters(cgroup_of(record, rank)),
        "log": prepared(home, record, rank) if wanted.get("output") else str(home.log(record.job, rank)),
        "errors": _errors(home, record, rank),
        "stdin": bool(wanted.get("stdin")) and rank == 0,
        "tty": bool(wanted.get("tty")) and rank == 0,
        "socket": str(page.parent / f"{record.job}.{record.attempt}.{rank}.sock"),
    }
    folder = home.task(record.job, record.attempt, rank)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / "launch", marshal.dumps(orders))


def limits_of(record: AttemptRecord, kind: DeviceKind) -> DeviceLimits:
    """The order says what is allowed in all, and how much of that on the device."""
    device_bytes = record.launch.get("memory_bytes") or 0
    return kind.limits(device_bytes, (record.launch.get("limit_bytes") or device_bytes) - device_bytes)


def page_for(path: Path, record: AttemptRecord, kind: DeviceKind) -> ControlPage:
    """The page of a task that is to be launched, or that was launched by an earlier coordinator."""
    try:
        limit_bytes = limits_of(record, kind).device_bytes
        words = {layout.ATTEMPT: record.attempt, layout.LIMIT: limit_bytes}
        return create_page(str(path), words | node_lanes.words(record))
    except FileExistsError:
        pass
    try:
        return open_control_page(str(path))
    except PageError as error:
        raise WeftError(str(error)) from error


def open_terminal(size: Mapping[str, int]) -> tuple[int, int]:
    """The two ends of a new terminal with a window of this size."""
    master, slave = os.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("=HHHH", size.get("rows", 24), size.get("cols", 80), 0, 0))
    return master, slave


def spawn(folder: Path, mark: str, terminal: tuple[int, int] | None) -> int:
    """Start a shepherd in a session of its own, with all signals as they are by default; its pid.

    What it has to say, which is nothing unless it breaks, stays beside its orders.
    """
    actions: list[tuple[Any, ...]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDWR, 0),
        (os.POSIX_SPAWN_OPEN, 2, str(folder / "shepherd.log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
        (os.POSIX_SPAWN_DUP2, 0, 1),
    ]
    if terminal:
        # Through numbers that are neither of the two: the second must not land on the first before that is moved.
        high = max(*terminal, MASTER, SLAVE) + 1
        moves = [(terminal[0], high), (terminal[1], high + 1), (high, MASTER), (high + 1, SLAVE)]
        actions += [(os.POSIX_SPAWN_DUP2, old, new) for old, new in moves]
        actions += [(os.POSIX_SPAWN_CLOSE, high), (os.POSIX_SPAWN_CLOSE, high + 1)]
    command = [sys.executable, "-I", "-S", shepherd.__file__, str(folder)]
    return os.posix_spawn(
        sys.executable,
        command,
        {**os.environ, MARK: mark},
        file_actions=actions,
        setsid=True,
        setsigmask=[],
        setsigdef=DEFAULTED,
    )


def free_port() -> int:
    """A port where the ranks of a gang can meet. Another process may take it first; then the gang fails with a
    message."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def path_of(record: AttemptRecord, rank: int) -> str:
    """Where a task is to write, in the job's folder unless the path is absolute. Unknown patterns stay as they are."""
    number, _, index = record.job.partition("_")
    meant = {
        "j": record.job,
        "A": number,
        "a": index or "0",
        "x": str(record.launch.get("name") or record.job).replace("/", "_"),
        "t": str(rank),
        "u": _user(),
        "%": "%",
    }
    pattern = str(record.launch["output"])
    path = PATTERN.sub(lambda match: meant[match[2]].rjust(int(match[1] or 0), "0"), pattern)
    return os.path.join(record.launch["cwd"], path)  # noqa: PTH118 - bytes that are no text stay as they are


def prepared(home: Home, record: AttemptRecord, rank: int) -> str:
    """The file of a task, there and empty when its job first starts; its log in the home is a link to it."""
    path, link = path_of(record, rank), home.log(record.job, rank)
    shared = any(path_of(record, other) == path for other in range(rank))
    is_first = record.attempt == 1 and not link.is_symlink() and not shared
    try:
        _make(path, record.launch["umask"], is_first)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise WeftError(f"its output {path[:200]} cannot be written: {why.lower()}") from error
    real = os.path.realpath(path)
    if not link.is_symlink():
        with suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(real)
    return real


def _make(path: str, umask: int, is_first: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    is_new = not os.path.lexists(path)
    fd = os.open(path, flags, 0o600)
    try:
        status = os.fstat(fd)
        if stat.S_ISREG(status.st_mode):
            if is_new:
                os.fchmod(fd, 0o666 & ~umask)  # the job's umask, not ours
            if is_first:
                os.ftruncate(fd, 0)
        elif status.st_rdev != os.stat(os.devnull).st_rdev:  # noqa: PTH116
            raise ValueError(f"it is {kind_at(Path(path))}, not a file")
    finally:
        os.close(fd)


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
