"""What differs between kinds of devices: what a task on them is told, and whether it can move while it pauses."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

from weft.core.value import value
from weft.node import usage
from weft.node.devices import Device, busy_part, cuda_devices, pids_on
from weft.node.idling import for_all_threads
from weft.node.serving import NOT_SERVED, Service
from weft.node.usage import Used
from weft.system import processes

Environment = Mapping[str, str]
TABLES_BYTES = 64 << 20
"""Of private memory, hardly any of which is ever used, that the library needs to keep account of its addresses."""


@value
class Limits:
    """What bounds the memory of a task; 0 is no bound."""

    device_bytes: int
    """As it stands on the control page, for whoever allocates there."""
    process_bytes: int
    """The private memory of each of its processes, by the kernel (RLIMIT_DATA)."""


class Kind(Protocol):
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

    def limits(self, device_bytes: int, host_bytes: int) -> Limits:
        """How its device memory, and besides that its host memory, are bounded by this; 0 for what has no bound."""

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        """Bind a task to other devices, if it can move."""

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        """What these processes hold of the devices' memory."""

    def utilisation(self, devices: Sequence[Device], before: Used, now: Used) -> float:
        """The part of the time, 0 to 1, in which a job that used so much of the cores kept its devices busy."""

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        """The devices as they are now, if `ours` gives the processes that weft has started there."""


class Cpu:
    shallow_depth = "gate"
    can_move = True

    def __init__(self, service: Service = NOT_SERVED) -> None:
        self._service = service
        self.has_lanes = service.is_there
        self.overflows = bool(service.is_there and service.tier)

    def environment(self, devices: Sequence[Device], base: Environment, *, is_strict: bool = False) -> dict[str, str]:
        """A smaller number of threads that the submitter chose stands. Waiting threads sleep: others use the cores."""
        threads = len(self.cores(devices))
        chosen = base.get("OMP_NUM_THREADS", "")
        if chosen.isdecimal() and int(chosen):
            threads = min(threads, int(chosen))
        said = {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": base.get("OMP_WAIT_POLICY", "passive")}
        return said | self._service.environment(base, is_strict=is_strict)

    def cores(self, devices: Sequence[Device]) -> list[int]:
        return sorted({core for device in devices for core in device.cores})

    def limits(self, device_bytes: int, host_bytes: int) -> Limits:
        """The library bounds the device memory by itself. Without it, the kernel bounds all of it together."""
        both_bytes = device_bytes + host_bytes
        if not self._service.is_there:
            return Limits(both_bytes, both_bytes)
        return Limits(device_bytes, both_bytes + TABLES_BYTES if host_bytes else 0)

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        cores = self.cores(devices)
        for_all_threads([leader], lambda thread: os.sched_setaffinity(thread, cores))

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        return sum(processes.resident_bytes(pid) for pid in pids)

    def utilisation(self, devices: Sequence[Device], before: Used, now: Used) -> float:
        return usage.utilisation(before, now, len(self.cores(devices)))

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return list(devices)


class Cuda:
    shallow_depth = "drop-caches"
    can_move = False
    has_lanes = False
    overflows = False

    def __init__(self, nvml: ModuleType | None) -> None:
        self._nvml: Any = nvml

    def environment(self, devices: Sequence[Device], base: Environment, *, is_strict: bool = False) -> dict[str, str]:
        indexes = ",".join(str(device.index) for device in devices)
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": indexes}

    def cores(self, devices: Sequence[Device]) -> list[int]:
        return []

    def limits(self, device_bytes: int, host_bytes: int) -> Limits:
        return Limits(device_bytes, 0)

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

    def utilisation(self, devices: Sequence[Device], before: Used, now: Used) -> float:
        """By the driver's own samples: of a device, whoever computed there. 1 where it does not say, so that nobody
        takes them to be idle."""
        since_us = int((time.time() - (now.at_s - before.at_s)) * 1e6)
        try:
            busy = [busy_part(self._nvml, device.index, since_us) for device in devices]
        except self._nvml.NVMLError:
            return 1.0
        known = [part for part in busy if part is not None]
        return sum(known) / len(known) if known else 1.0

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return cuda_devices(self._nvml, ours(), devices)


def kind_of(devices: Sequence[Device], nvml: ModuleType | None, service: Service = NOT_SERVED) -> Kind:
    """All devices of a node are of one kind."""
    makers: dict[str, Callable[[], Kind]] = {"cpu": lambda: Cpu(service), "cuda": lambda: Cuda(nvml)}
    return makers[devices[0].kind]()
