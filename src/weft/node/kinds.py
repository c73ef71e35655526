"""What differs between kinds of devices: what a task on them is told, and whether it can move while it pauses."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, Protocol

from weft.node import processes
from weft.node.devices import Device, cuda_devices, pids_on

Environment = Mapping[str, str]


class Kind(Protocol):
    shallow_depth: str
    """The pause that keeps a task in memory."""

    can_move: bool
    """Whether a paused task can go on on other devices than it was launched on."""

    def environment(self, devices: Sequence[Device], base: Environment) -> dict[str, str]:
        """What a task on these devices is told."""

    def cores(self, devices: Sequence[Device]) -> list[int]:
        """The cores a task is bound to; none: it is not."""

    def limit_bytes(self, limit_bytes: int) -> int:
        """What bounds the private memory of its processes, 0 for nothing, if this bounds its device memory."""

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        """Bind a paused task to other devices, if it can move."""

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        """What these processes hold of the devices' memory."""

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        """The devices as they are now, if `ours` gives the processes that weft has started there."""


class Cpu:
    shallow_depth = "gate"
    can_move = True

    def environment(self, devices: Sequence[Device], base: Environment) -> dict[str, str]:
        """A smaller number of threads that the submitter chose stands. Waiting threads sleep: others use the cores."""
        threads = len(self.cores(devices))
        chosen = base.get("OMP_NUM_THREADS", "")
        if chosen.isdecimal() and int(chosen):
            threads = min(threads, int(chosen))
        return {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": base.get("OMP_WAIT_POLICY", "passive")}

    def cores(self, devices: Sequence[Device]) -> list[int]:
        return sorted({core for device in devices for core in device.cores})

    def limit_bytes(self, limit_bytes: int) -> int:
        return limit_bytes

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        cores, bound = self.cores(devices), set[int]()
        while more := _threads(processes.family([leader])) - bound:  # threads that came in between have been caught up
            for thread in more:
                with suppress(ProcessLookupError, PermissionError):
                    os.sched_setaffinity(thread, cores)
            bound |= more

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        return sum(processes.resident_bytes(pid) for pid in pids)

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return list(devices)


class Cuda:
    shallow_depth = "drop-caches"
    can_move = False

    def __init__(self, nvml: ModuleType | None) -> None:
        self._nvml: Any = nvml

    def environment(self, devices: Sequence[Device], base: Environment) -> dict[str, str]:
        indexes = ",".join(str(device.index) for device in devices)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": indexes}

    def cores(self, devices: Sequence[Device]) -> list[int]:
        return []

    def limit_bytes(self, limit_bytes: int) -> int:
        return 0

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        raise NotImplementedError("a task on a GPU stays there")

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        held = [self._pids_on(device) for device in devices]
        return sum(size for on_one in held for pid, size in on_one.items() if pid in pids)

    def _pids_on(self, device: Device) -> dict[int, int]:
        try:
            return pids_on(self._nvml, device.index)
        except self._nvml.NVMLError:  # the device is blocked until the driver answers again
            return {}

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return cuda_devices(self._nvml, ours(), devices)


def _threads(pids: Collection[int]) -> set[int]:
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            found |= {int(each) for each in os.listdir(f"/proc/{pid}/task")}  # noqa: PTH208 - numbers, not paths
    return found


def kind_of(devices: Sequence[Device], nvml: ModuleType | None) -> Kind:
    """All devices of a node are of one kind."""
    makers: dict[str, Callable[[], Kind]] = {"cpu": Cpu, "cuda": lambda: Cuda(nvml)}
    return makers[devices[0].kind]()
