"""What is on disk of an attempt, so that whoever comes after a killed coordinator or shepherd knows how things stand.

jobs/ID/attempts/A/attempt.json       what was decided before anything was started; the last file to go
                  /R/launch           what the shepherd of task R is to do
                  /R/shepherd.json    from here on the task exists, or (pid 0) never will
                  /R/status.json      how it ended
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from weft.core.value import value
from weft.home import Home
from weft.node.pages import is_used
from weft.node.seat import HOLDER, Seat
from weft.runtime.procfs import start_time

T = TypeVar("T")


OF_A_TASK = re.compile(r"([0-9_]+)\.([0-9]+)\.[0-9]+\.(?:sock|page(?:\.[0-9]+)?)")
"""A page or a socket in memory, by its name."""


@value
class Record:
    """An attempt as it was ordered. `generation`, `devices` and `seat` are of the last order that was carried out;
    `lane` is the one it is in then, if it can be in one. `cgroups` is the folder where each task has its own."""

    job: str
    attempt: int
    generation: int
    devices: tuple[int, ...]
    boot_id: str
    master_port: int
    launch: dict[str, Any]
    seat: Seat = HOLDER
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
class Shepherd:
    """Who tends a task; pid 0 if nobody ever will."""

    pid: int
    start: int
    boot_id: str


@value
class Status:
    """How a task ended. What it started is known to have ended only if the shepherd says so."""

    exit_code: int
    at_s: float
    by: str
    message: str


def folder_of(home: Home, job: str, attempt: int) -> Path:
    return home.task(job, attempt, 0).parent


def write_record(home: Home, record: Record) -> None:
    folder = folder_of(home, record.job, record.attempt)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(folder / "attempt.json", json.dumps(asdict(record)).encode())


def replace_file(path: Path, content: bytes) -> None:
    """`path` has this content from one instant to the next. For us alone: it holds a user's environment."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
    draft.replace(path)


def read_record(home: Home, job: str, attempt: int) -> Record | None:
    found = _read(folder_of(home, job, attempt) / "attempt.json", Record)
    return found and replace(found, devices=tuple(found.devices), seat=_seat(found.seat))


def _seat(found: Any) -> Seat:
    """One that was written before there were seats held its devices."""
    return Seat(**found) if isinstance(found, dict) else HOLDER


def read_shepherd(folder: Path) -> Shepherd | None:
    return _read(folder / "shepherd.json", Shepherd)


def read_status(folder: Path) -> Status | None:
    return _read(folder / "status.json", Status)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return kind(**json.loads(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError):  # cut short when the machine lost power: as if it had never been written
        return None


def remove(home: Home, job: str, attempt: int) -> None:
    """Forget an attempt. Killed in the middle, whoever comes after finds no task that was started."""
    folder = folder_of(home, job, attempt)
    with suppress(FileNotFoundError):
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name == "attempt.json"):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        folder.rmdir()
    with suppress(OSError):  # other attempts are there
        folder.parent.rmdir()


def attempts_on_disk(home: Home) -> list[tuple[str, int]]:
    """Those whose end nobody has acknowledged. The folders of ended jobs stay for their logs, and there are many."""
    found = []
    with os.scandir(home.root / "jobs") as jobs:
        for job in jobs:
            folder = f"{job.path}/attempts"
            try:
                names = os.listdir(folder)  # noqa: PTH208 - numbers, not paths
            except (FileNotFoundError, NotADirectoryError):
                continue
            found += [(job.name, int(name)) for name in names if name.isdecimal()]
            if not names:  # whoever removed the last one was killed
                os.rmdir(folder)  # noqa: PTH106
    return found


def remove_leftovers(home: Home) -> set[tuple[str, int]]:
    """Remove what is in memory of attempts that are forgotten; those that are not are returned.

    An attempt has its folder on disk before anything of it is in memory, and loses it last. Pages whose maker was
    killed over them go as well.
    """
    kept = set()
    for entry in home.run.iterdir():
        if entry.name.startswith(".weft-"):
            maker = entry.name.split("-")[1]
            is_left = not (maker.isdecimal() and start_time(int(maker)))
        else:
            of_a_task = OF_A_TASK.fullmatch(entry.name)
            is_left = of_a_task is not None and _is_forgotten(home, entry, of_a_task[1], int(of_a_task[2]))
            if of_a_task and not is_left:
                kept.add((of_a_task[1], int(of_a_task[2])))
        if is_left:
            entry.unlink(missing_ok=True)
    return kept


def _is_forgotten(home: Home, entry: Path, job: str, attempt: int) -> bool:
    """No record tells of it. Whoever still uses a page lives on though somebody removed the records of it."""
    return not folder_of(home, job, attempt).exists() and not (entry.suffix != ".sock" and is_used(entry))
