"""Cgroups (version 2) as fences: each task runs in one of its own, which the kernel kills and counts as a whole.

CGROUP OF THE COORDINATOR/weft-ID OF THE HOME/JOB.ATTEMPT.RANK

No controller is enabled, so nothing is limited or weighed by them: they only tell which processes belong to a task.
They are made below the cgroup the coordinator is in, so its own limits stay in force.
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.shepherd.command import fork_into
from weft.node.shepherd.supervise import AROUND, MACHINE, TASK
from weft.system.files import MOUNTINFO, file_system, mounts_of
from weft.system.runtime_dir import home_id

OUR_CGROUPS = Path("/proc/self/cgroup")
OF_A_TASK = re.compile(r"([0-9_]+)\.([0-9]+)\.[0-9]+|(trial)-([0-9]+)")
TRIAL_S = 2.0
LOOK_EVERY_S = 0.001
BY_CGROUP = "cgroup v2 at "
HOW_TO_HAVE_ONE = "systemd-run --user --scope -p Delegate=yes weft up, or start weft as root"
VMSTAT = "/proc/vmstat"


@value
class Fences:
    """Where the cgroups of a home's tasks are; without a folder there are none, and `why_not` says why."""

    folder: str
    why_not: str = ""
    is_required: bool = False

    @property
    def says(self) -> str:
        """What is told of it to people."""
        if self.folder:
            return BY_CGROUP + self.folder
        return f"by process scans, no cgroup: {self.why_not}"

    def left_over(self, known: Collection[tuple[str, int]]) -> list[str]:
        """Cgroups of this home's attempts of which no record tells, and of trials by a process that was killed."""
        return [path for key, path in self._all() if key not in known]

    def of_job(self, job: str) -> list[str]:
        return [path for (each, _), path in self._all() if each == job]

    def _all(self) -> list[tuple[tuple[str, int], str]]:
        try:
            names = os.listdir(self.folder) if self.folder else []  # noqa: PTH208 - names, not paths
        except OSError:
            return []
        found = [(OF_A_TASK.fullmatch(name), name) for name in names]
        keys = [((match[1] or match[3], int(match[2] or match[4])), name) for match, name in found if match]
        return [(key, f"{self.folder}/{name}") for key, name in keys]

    def remove(self) -> None:
        """Remove the folder, if nothing is in it."""
        if self.folder:
            with suppress(OSError):
                os.rmdir(self.folder)  # noqa: PTH106


def find_fences(mode: str, root: Path) -> Fences:
    """By trying: a cgroup is made, a process started in it and killed with it."""
    if mode == "scan":
        return Fences("", 'turned off by fence = "scan"')
    try:
        folder = _parent(root) / f"weft-{identity(root)}"
        folder.mkdir(mode=0o755, exist_ok=True)
        why_not = _why_unfit(f"{folder}/trial-{os.getpid()}")
    except WeftError as error:
        why_not = error.message
    except OSError as error:
        why_not = f"{error.filename or 'cgroup'}: {(error.strerror or str(error)).lower()}"
    if not why_not:
        return Fences(str(folder), is_required=mode == "cgroup")
    if mode == "cgroup":
        raise WeftError(f"no cgroup for jobs: {why_not}", HOW_TO_HAVE_ONE)
    return Fences("", why_not)


def identity(root: Path) -> str:
    """Of a home, wherever it is moved to; of a folder that is none yet, by its place and its inode."""
    status = root.stat()
    text = home_id(root) or f"{os.getuid()} {status.st_dev} {status.st_ino} {root}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def is_fence_of(folder: str, root: Path) -> bool:
    """Whether this can be where the cgroups of a home's tasks are: a cgroup with the home's name."""
    path = Path(folder)
    is_plain = path.is_absolute() and ".." not in path.parts and "\0" not in folder
    try:
        return is_plain and path.name == f"weft-{identity(root)}" and file_system(path) == "cgroup2"
    except (OSError, RuntimeError):  # a link to itself on the way
        return False


def _parent(root: Path) -> Path:
    """The cgroup this process is in. If a task of this home has started it, the one around that task's."""
    found = own_cgroups(_read(MOUNTINFO), _read(OUR_CGROUPS))
    if not found:
        raise WeftError("cgroup v2 is not mounted")
    parent = next((each for each in found if os.access(each, os.W_OK)), found[0])
    name = f"weft-{identity(root)}"
    return Path(*parent.parts[: parent.parts.index(name)]) if name in parent.parts else parent


def own_cgroups(mountinfo: str, own: str) -> list[Path]:
    """The folders of the cgroup that /proc/self/cgroup names, one for each mount that shows it."""
    paths = [Path(line.partition("::")[2]) for line in own.splitlines() if line.startswith("0::")]
    mounts = mounts_of(mountinfo, "cgroup2")
    return [
        point / path.relative_to(root)
        for path in paths
        for root, point in mounts
        if path.is_relative_to(root) and ".." not in path.parts
    ]


def make(cgroup: str) -> None:
    """One that is there already, and its parent, are as good as new."""
    Path(cgroup).mkdir(mode=0o755, parents=True, exist_ok=True)


def is_populated(cgroup: str) -> bool:
    """Whether a process in it or below it lives. Zombies do not count."""
    return "populated 1" in _read_or_nothing(f"{cgroup}/cgroup.events")


def pids(cgroup: str) -> set[int]:
    """Its processes and those below it, as they are numbered here; those of other process namespaces are left out."""
    found: set[int] = set()
    for folder, _, _ in os.walk(cgroup):
        listed = _read_or_nothing(f"{folder}/cgroup.procs") or _read_or_nothing(f"{folder}/cgroup.threads")
        found |= {int(line) for line in listed.split() if line != "0"}
    return found


def kill(cgroup: str, but_not: Collection[int] = ()) -> None:
    """Kill all in it at once. On a kernel without cgroup.kill they are frozen, so that none forks, and killed in turn.

    A job can move any process of its user into it: this one, its parent and `but_not` are moved out first.
    """
    spared = {os.getpid(), os.getppid(), *but_not}
    for pid in pids(cgroup) & spared:
        _write(f"{Path(cgroup).parent.parent}/cgroup.procs", str(pid))
    if not _kill_all(cgroup):
        _write(f"{cgroup}/cgroup.freeze", "1")
        for pid in pids(cgroup) - spared:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def remove(cgroup: str) -> None:
    """With those that its processes made in it. One that is populated stays."""
    for folder, _, _ in os.walk(cgroup, topdown=False):
        with suppress(OSError):
            os.rmdir(folder)  # noqa: PTH106


def _why_unfit(cgroup: str) -> str:
    """Why a process that is started in it could not be found and killed there; empty if it can."""
    make(cgroup)
    reading, writing = os.pipe()
    try:
        pid, is_inside = fork_into(cgroup)
        if pid == 0:
            os.close(writing)
            os.read(reading, 1)  # until it is killed, or this process is
            os._exit(0)
        if not is_inside:
            _write(f"{cgroup}/cgroup.procs", str(pid))
        was_inside = pid in pids(cgroup)
        if was_inside:
            kill(cgroup)
        else:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        deadline_s = time.monotonic() + TRIAL_S
        while is_populated(cgroup) and time.monotonic() < deadline_s:
            time.sleep(LOOK_EVERY_S)
        return "" if was_inside and not is_populated(cgroup) else f"processes cannot be moved into {cgroup}"
    finally:
        os.close(reading)
        os.close(writing)
        remove(cgroup)


def _read(path: Path) -> str:
    return os.fsdecode(path.read_bytes())


def _read_or_nothing(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123
            return file.read()
    except OSError:  # removed, or threaded
        return ""


def _kill_all(cgroup: str) -> bool:
    """Whether the kernel kills them: one before 5.14 cannot, and in a threaded cgroup none does."""
    return _write(f"{cgroup}/cgroup.kill", "1")


def _write(path: str, text: str) -> bool:
    try:
        with open(path, "w") as file:  # noqa: PTH123
            file.write(text)
    except OSError:
        return False
    return True


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
