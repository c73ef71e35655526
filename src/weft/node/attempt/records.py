"""What is on disk of an attempt, so that the next coordinator or shepherd can continue after one was killed.

jobs/ID/attempts/A/attempt.json       what was decided before anything was started; the last file to go
                  /R/launch           what the shepherd of task R is to do
                  /R/shepherd.json    from here on the task exists, or (pid 0) never will
                  /R/status.json      how it ended
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.attempt.order import HOLDER, MOST_TASKS, AttemptSeat, checked_launch
from weft.node.fence.cgroups import is_fence_of
from weft.node.shepherd.supervise import AROUND, MACHINE, TASK
from weft.node.task.control_page import is_used
from weft.node.task.page_snapshot import MOST_PID
from weft.runtime.procfs import start_time
from weft.system.files import EntryError, discard, read_file, replace_file
from weft.system.home import Home

T = TypeVar("T")
MOST_LANES = 1 << 31
MOST_SAID, SHOWN = 2000, 100

A_JOB, AN_ATTEMPT = re.compile(r"[0-9]+(?:_[0-9]+)?"), re.compile(r"[0-9]{1,18}")
OF_A_TASK = re.compile(r"([0-9]+(?:_[0-9]+)?)\.([0-9]{1,18})\.[0-9]{1,18}\.(?:sock|page(?:\.[0-9]+)?)")
"""A page or a socket in memory, by its name."""


@value
class AttemptRecord:
    """An attempt as it was ordered. `generation`, `devices` and `seat` are of the last order that was carried out;
    `lane` is the one it is in then, if it can be in one. `cgroups` is the folder where each task has its own."""

    job: str
    attempt: int
    generation: int
    devices: tuple[int, ...]
    boot_id: str
    master_port: int
    launch: dict[str, Any]
    seat: AttemptSeat = HOLDER
    lane: int = 0
    cgroups: str = ""
    needs_cgroup: bool = False

    @property
    def key(self) -> tuple[str, int]:
        return self.job, self.attempt

    @property
    def tasks(self) -> int:
        return int(self.launch["tasks"])

    def devices_of(self, rank: int) -> tuple[int, ...]:
        """Each rank's, handed out in order; with fewer devices than ranks, all have all."""
        each = int(self.launch["devices_per_task"])
        return self.devices[rank * each : (rank + 1) * each] or self.devices


@value
class ShepherdRecord:
    """The shepherd of a task; pid 0 if it never gets one."""

    pid: int
    start: int
    boot_id: str


@value
class TaskExit:
    """How a task ended. What it started is known to have ended only if the shepherd says so."""

    exit_code: int
    at_s: float
    by: str
    message: str
    oom: str = ""
    """Where the kernel killed for want of memory while it ran: see oom_kills."""
    peak_bytes: int = 0
    """The most that one of its processes had resident."""


class DamagedRecordError(WeftError):
    """A record is not as it was written; its attempt is lost, and no other is."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"its record {path.name} is damaged: {why}", f"has the job written to {path.parent}?")


def record_of(said: dict[str, Any]) -> AttemptRecord:
    """What attempt.json says, every part of it checked. One that was written before there were seats held its
    devices."""
    seat = said.get("seat")
    return AttemptRecord(
        job=_text(said, "job"),
        attempt=_whole(said, "attempt"),
        generation=_whole(said, "generation"),
        devices=tuple(_wholes(said, "devices")),
        boot_id=_text(said, "boot_id"),
        master_port=_whole(said, "master_port", 65535),
        launch=checked_launch(said["launch"]),
        seat=_seat(seat) if isinstance(seat, dict) else HOLDER,
        lane=_whole(said, "lane", MOST_LANES) if "lane" in said else 0,
        cgroups=_text(said, "cgroups") if "cgroups" in said else "",
        needs_cgroup=said.get("needs_cgroup") is True,
    )


def _seat(said: dict[str, Any]) -> AttemptSeat:
    for name in ("base", "weight"):
        if not isinstance(said.get(name), int) or not -(1 << 63) <= said[name] < 1 << 63:
            raise ValueError(f"{name} of its seat is {str(said.get(name))[:SHOWN]}")
    is_guest, is_throttled = bool(said["is_guest"]), bool(said["is_throttled"])
    return AttemptSeat(is_guest, is_throttled, _whole(said, "lane", MOST_LANES), said["base"], said["weight"])


def shepherd_of(said: dict[str, Any]) -> ShepherdRecord:
    return ShepherdRecord(_whole(said, "pid", MOST_PID), _whole(said, "start"), _text(said, "boot_id"))


def status_of(said: dict[str, Any]) -> TaskExit:
    at_s = said["at_s"]
    if not isinstance(at_s, int | float) or not math.isfinite(at_s):
        raise ValueError("at_s is no time")
    message = "".join(each if each.isprintable() else " " for each in _text(said, "message"))
    oom = said.get("oom", "")
    return TaskExit(
        exit_code=_whole(said, "exit_code", 255),
        at_s=float(at_s),
        by=_text(said, "by"),
        message=message[:MOST_SAID],
        oom=oom if oom in (TASK, AROUND, MACHINE) else "",
        peak_bytes=_whole(said, "peak_bytes") if "peak_bytes" in said else 0,
    )


def _whole(said: dict[str, Any], name: str, most: int = (1 << 63) - 1) -> int:
    number = said[name]
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= most:
        raise ValueError(f"{name} is {str(number)[:SHOWN]}")
    return number


def _wholes(said: dict[str, Any], name: str) -> Iterator[int]:
    numbers = said[name]
    if not isinstance(numbers, list) or len(numbers) > MOST_TASKS:
        raise TypeError(f"{name} is no list of numbers")
    return (_whole({name: each}, name, 1 << 31) for each in numbers)


def _text(said: dict[str, Any], name: str) -> str:
    text = said[name]
    if not isinstance(text, str):
        raise TypeError(f"{name} is no text")
    return text


def folder_of(home: Home, job: str, attempt: int) -> Path:
    return home.task(job, attempt, 0).parent


def write_record(home: Home, record: AttemptRecord) -> None:
    folder = folder_of(home, record.job, record.attempt)
    _clear_way(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / "attempt.json", json.dumps(asdict(record)).encode())


def _clear_way(folder: Path) -> None:
    """What stands in the place of a folder of records and is none goes."""
    for each in (folder.parent, folder):
        try:
            is_in_the_way = not stat.S_ISDIR(each.lstat().st_mode)
        except OSError:  # nothing is there
            continue
        if is_in_the_way:
            discard(each)


def read_record(home: Home, job: str, attempt: int) -> AttemptRecord | None:
    """None if there is none; DamagedRecordError if it is not one that we wrote for this attempt."""
    path = folder_of(home, job, attempt) / "attempt.json"
    record = _read(path, record_of)
    if record is not None and record.key != (job, attempt):
        raise DamagedRecordError(path, f"it is of job {record.job[:32]!r}, attempt {record.attempt}")
    if record is not None and record.cgroups and not is_fence_of(record.cgroups, home.root):
        raise DamagedRecordError(path, f"cgroups is {record.cgroups[:SHOWN]!r}")  # all in there would be killed
    return record


def read_shepherd(folder: Path) -> ShepherdRecord | None:
    return _read(folder / "shepherd.json", shepherd_of)


def read_status(folder: Path) -> TaskExit | None:
    return _read(folder / "status.json", status_of)


def _read(path: Path, reading: Callable[[dict[str, Any]], T]) -> T | None:
    try:
        content = read_file(path)
    except EntryError as error:
        raise DamagedRecordError(path, error.message) from error
    if content is None:
        return None
    try:
        return reading(_table(json.loads(content)))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, WeftError) as error:
        raise DamagedRecordError(path, str(error)[:SHOWN] or type(error).__name__) from error


def _table(said: Any) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise TypeError("it is no table")
    return said


def remove(home: Home, job: str, attempt: int) -> None:
    """Forget an attempt. If we are killed in the middle, the next coordinator finds no task that was started."""
    folder = folder_of(home, job, attempt)
    _clear_way(folder)
    with suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == "attempt.json"):
            if entry.is_dir() and not entry.is_symlink():
                with suppress(RecursionError):
                    shutil.rmtree(entry)
            discard(entry)
        folder.rmdir()
    with suppress(OSError):  # other attempts are there
        folder.parent.rmdir()


def attempts_on_disk(home: Home) -> list[tuple[str, int]]:
    """Those whose end is not acknowledged yet. The folders of ended jobs stay for their logs, and there are many."""
    found = []
    with os.scandir(home.root / "jobs") as jobs:
        for job in jobs:
            folder = f"{job.path}/attempts"
            try:
                names = os.listdir(folder)  # noqa: PTH208 - numbers, not paths
                if not names:  # the coordinator that removed the last one was killed
                    os.rmdir(folder)  # noqa: PTH106
            except OSError:  # there is none, or something else
                continue
            if A_JOB.fullmatch(job.name):
                found += [(job.name, int(name)) for name in names if AN_ATTEMPT.fullmatch(name)]
    return found


def remove_leftovers(home: Home) -> set[tuple[str, int]]:
    """Remove what is in memory of attempts that are forgotten; those that are not are returned.

    An attempt has its folder on disk before anything of it is in memory, and loses it last. Pages whose maker was
    killed over them go as well. What cannot be removed is left, and tried again the next time.
    """
    kept = set()
    for entry in _entries(home.run):
        if entry.name.startswith(".weft-"):
            maker = entry.name.split("-")[1]
            is_left = not (AN_ATTEMPT.fullmatch(maker) and start_time(int(maker)))
        else:
            of_a_task = OF_A_TASK.fullmatch(entry.name)
            is_left = of_a_task is not None and _is_forgotten(home, entry, of_a_task[1], int(of_a_task[2]))
            if of_a_task and not is_left:
                kept.add((of_a_task[1], int(of_a_task[2])))
        if is_left:
            with suppress(OSError):
                discard(entry)
    return kept


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError as error:
        raise WeftError(
            f"{folder} cannot be listed: {error.strerror}", "was it removed? weft down, then weft up"
        ) from error


def _is_forgotten(home: Home, entry: Path, job: str, attempt: int) -> bool:
    """It has no record. A page that is still in use belongs to a living process whose records were removed."""
    folder = folder_of(home, job, attempt)
    return not os.path.lexists(folder) and not (entry.suffix != ".sock" and is_used(entry))
