"""Starting a task: what it is told, where its shepherd finds that, and the shepherd itself."""

from __future__ import annotations

import fcntl
import marshal
import os
import signal
import socket
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.core.errors import WeftError
from weft.node import laning, launch, memory_end, output, shepherd
from weft.node.census import MARK
from weft.node.control_page import ControlPage, create_page, open_control_page
from weft.node.devices import Device
from weft.node.kinds import Kind, Limits
from weft.node.records import Record
from weft.node.tending import MASTER, SLAVE
from weft.runtime.page import layout
from weft.runtime.page.page_file import PageError
from weft.system.files import replace_file
from weft.system.home import Home

SAID_BY_WEFT = (
    "WEFT_ARRAY_INDEX",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
DEFAULTED = [number for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]


def mark_of(run: Path, record: Record, rank: int) -> str:
    """What all processes of a task have in their environment, unless they choose another."""
    return f"{run}/{record.job}.{record.attempt}.{rank}"


def task_environment(
    home: Home, record: Record, rank: int, kind: Kind, devices: Sequence[Device], page: Path
) -> dict[str, str]:
    """The submitter's, and what weft and torchrun say."""
    submitted: Mapping[str, str] = record.launch["env"]
    if MARK in submitted:  # from within another job, whose rank this one has not
        submitted = {name: text for name, text in submitted.items() if name not in SAID_BY_WEFT}
    env = launch.environment(submitted, page, home.checkpoints(record.job))
    env |= kind.environment(devices, submitted, is_strict=bool(record.launch.get("strict")))
    env |= _threads(record.launch.get("cpus"), submitted, env)
    env |= laning.environment(page.parent, record, kind, devices)
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


def _errors(home: Home, record: Record, rank: int) -> str:
    """With an output of its own, a job has both in that."""
    is_split = record.launch.get("split") and not record.launch.get("output")
    return str(home.log(record.job, rank, split=True)) if is_split else ""


def cgroup_of(record: Record, rank: int) -> str:
    """Where all processes of a task are; empty if they are in no cgroup of their own."""
    return f"{record.cgroups}/{record.job}.{record.attempt}.{rank}" if record.cgroups else ""


def write_launch(home: Home, record: Record, rank: int, kind: Kind, devices: Sequence[Device], page: Path) -> None:
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
        "oom_counters": memory_end.counters(cgroup_of(record, rank)),
        "log": output.prepared(home, record, rank) if wanted.get("output") else str(home.log(record.job, rank)),
        "errors": _errors(home, record, rank),
        "stdin": bool(wanted.get("stdin")) and rank == 0,
        "tty": bool(wanted.get("tty")) and rank == 0,
        "socket": str(page.parent / f"{record.job}.{record.attempt}.{rank}.sock"),
    }
    folder = home.task(record.job, record.attempt, rank)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / "launch", marshal.dumps(orders))


def limits_of(record: Record, kind: Kind) -> Limits:
    """The order says what is allowed in all, and how much of that on the device."""
    device_bytes = record.launch.get("memory_bytes") or 0
    return kind.limits(device_bytes, (record.launch.get("limit_bytes") or device_bytes) - device_bytes)


def page_for(path: Path, record: Record, kind: Kind) -> ControlPage:
    """The page of a task that is to be launched, or that was launched by an earlier coordinator."""
    try:
        limit_bytes = limits_of(record, kind).device_bytes
        words = {layout.ATTEMPT: record.attempt, layout.LIMIT: limit_bytes}
        return create_page(str(path), words | laning.words(record))
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
    """A port where the ranks of a gang can meet. Somebody else may take it first; then the gang fails, and says so."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
