"""A device, its memory, and what differs between kinds of devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from weft.core.value import value

CGROUPS = Path("/sys/fs/cgroup")
OUR_GROUPS = Path("/proc/self/cgroup")

Environment = Mapping[str, str]


@value
class Device:
    """One accelerator as the hardware counts it, or some cores and a share of the memory that take its place."""

    index: int
    kind: str
    type: str
    name: str
    memory_bytes: int
    cores: tuple[int, ...] = ()
    blocked_by: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def machine_bytes(groups: Path = OUR_GROUPS, top: Path = CGROUPS) -> int:
    """The memory we may use: the machine's, or the limit of our control group if that is lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _limit_files(groups, top):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdecimal():
            limits.append(int(text))
    return min(limits)


def _limit_files(groups: Path, top: Path) -> list[Path]:
    """Of our control group and of those around it, under both versions of control groups."""
    try:
        lines = groups.read_text().splitlines()
    except OSError:
        return []
    files = []
    for line in lines:
        _, controllers, group = line.split(":", 2)
        is_memory = "memory" in controllers.split(",")
        mount, name = (top / "memory", "memory.limit_in_bytes") if is_memory else (top, "memory.max")
        if is_memory or not controllers:
            inner = Path(group.lstrip("/"))
            files += [mount / folder / name for folder in (inner, *inner.parents)]
    return files


@value
class CoreTime:
    """What a family of processes has used of cores until an instant."""

    at_s: float
    cpu_s: float


@value
class DeviceLimits:
    """What bounds the memory of a task; 0 is no bound."""

    device_bytes: int
    """As it stands on the control page, for the allocator there."""
    process_bytes: int
    """The private memory of each of its processes, by the kernel (RLIMIT_DATA)."""


class DeviceKind(Protocol):
    shallow_depth: str
    """The pause that keeps a task in memory."""

    can_move: bool
    """Whether a task can go on on other devices than it was launched on."""

    has_lanes: bool
    """Whether tasks on one device can take turns in a lane."""

    overflows: bool
    """Whether what is over a task's limit goes to the next tier. If not it fails, so its owner alone sets one."""

    def environment(self, devices: Sequence[Device], base: Environment, *, is_strict: bool = False) -> dict[str, str]:
        """What a task on these devices is told; strict: what does not fit fails, and does not overflow."""

    def cores(self, devices: Sequence[Device]) -> list[int]:
        """The cores a task is bound to; none: it is not."""

    def limits(self, device_bytes: int, host_bytes: int) -> DeviceLimits:
        """How its device memory, and besides that its host memory, are bounded by this; 0 for what has no bound."""

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        """Bind a task to other devices, if it can move."""

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        """What these processes hold of the devices' memory."""

    def utilisation(self, devices: Sequence[Device], before: CoreTime, now: CoreTime) -> float:
        """The part of the time, 0 to 1, in which a job that used so much of the cores kept its devices busy."""

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        """The devices as they are now, if `ours` gives the processes that weft has started there."""
