"""GPUs as devices, by NVML: what is found, which processes compute there, how busy they are."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.node.devices.device import CoreTime, Device, DeviceLimits, Environment

SILENT = "the driver does not answer for it"

log = logging.getLogger(__name__)


def load_nvml() -> ModuleType | None:
    """NVML, ready to be asked; None where there is no driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return None
    except pynvml.NVMLError as error:
        log.warning("as if there were no GPUs: %s", error)
        return None
    return pynvml  # type: ignore[no-any-return]


def cuda_devices(nvml: Any, ours: Collection[int] = (), known: Sequence[Device] = ()) -> list[Device]:
    """All GPUs. One on which a process runs that is not among `ours` is blocked by it.

    Where the driver does not answer, they are as they were `known` before, and blocked.
    """
    if nvml is None:
        return []
    before = {device.index: device for device in known}
    try:
        count = nvml.nvmlDeviceGetCount()
    except nvml.NVMLError as error:
        log.warning("the driver of the GPUs does not answer: %s", error)
        return [replace(device, blocked_by=SILENT) for device in known]
    return [_answered_for(nvml, index, ours, before.get(index)) for index in range(count)]


def _answered_for(nvml: Any, index: int, ours: Collection[int], known: Device | None) -> Device:
    try:
        return _cuda_device(nvml, index, ours)
    except nvml.NVMLError:
        return replace(known or Device(index, "cuda", "unknown", f"GPU {index}", 0), blocked_by=SILENT)


def _cuda_device(nvml: Any, index: int, ours: Collection[int]) -> Device:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    name = _text(nvml.nvmlDeviceGetName(handle))
    foreign = sorted(set(pids_on(nvml, index)) - set(ours))
    return Device(
        index=index,
        kind="cuda",
        type=_type(name),
        name=name,
        memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(handle).total),
        blocked_by=_described(foreign[0]) if foreign else None,
    )


def pids_on(nvml: Any, index: int) -> dict[int, int]:
    """The processes that compute on a GPU, and the bytes each holds there; 0 where the driver does not say."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    found = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
    return {int(each.pid): int(each.usedGpuMemory or 0) for each in found}


def busy_part(nvml: Any, index: int, since_us: int) -> float | None:
    """The part of the time in which a GPU computed, by what the driver keeps of its last seconds; None if nothing."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    _, samples = nvml.nvmlDeviceGetSamples(handle, nvml.NVML_GPU_UTILIZATION_SAMPLES, since_us)
    percents = [int(each.sampleValue.uiVal) for each in samples if int(each.timeStamp) >= since_us]
    return sum(percents) / len(percents) / 100 if percents else None


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _type(name: str) -> str:
    """A100 of "NVIDIA A100-SXM4-40GB": what users ask for."""
    words = [word for word in name.replace("-", " ").split() if word not in ("NVIDIA", "Tesla", "Quadro")]
    if words[:1] == ["GeForce"]:
        return " ".join(words[1:])
    return words[0] if words else name


def _described(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        owner = Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return f"process {pid}, which cannot be seen from here"
    whose = "" if owner == os.getuid() else " of another user"
    return f"process {pid} ({name}){whose}"


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

    def limits(self, device_bytes: int, host_bytes: int) -> DeviceLimits:
        return DeviceLimits(device_bytes, 0)

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

    def utilisation(self, devices: Sequence[Device], before: CoreTime, now: CoreTime) -> float:
        """By the driver's own samples: of a device, for all processes there. 1 where it does not say, so that
        they do not pass for idle."""
        since_us = int((time.time() - (now.at_s - before.at_s)) * 1e6)
        try:
            busy = [busy_part(self._nvml, device.index, since_us) for device in devices]
        except self._nvml.NVMLError:
            return 1.0
        known = [part for part in busy if part is not None]
        return sum(known) / len(known) if known else 1.0

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return cuda_devices(self._nvml, ours(), devices)
