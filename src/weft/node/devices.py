"""The devices of this machine: GPUs by NVML, or else the cores we may use, each with a share of the memory."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.core.errors import InputError
from weft.core.value import value
from weft.system.units import parsed_bytes

HINT = (
    "cpu=4 for four devices made of this machine's cores, cpu=4:2G for so much memory each, cpu for one a core, "
    "cuda for its GPUs"
)
MOST_CPU_DEVICES = 1024
LEAST_MEMORY_BYTES = 1 << 20
CGROUPS = Path("/sys/fs/cgroup")
OUR_GROUPS = Path("/proc/self/cgroup")
SILENT = "the driver does not answer for it"

log = logging.getLogger(__name__)


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


def discover(text: str, nvml: ModuleType | None) -> list[Device]:
    """The devices that `text` chooses: "cpu", "cpu=4", "cpu=4:2G", "cuda"; empty for the GPUs if there are any, else
    the cores."""
    kind, equals, number = text.strip().partition("=")
    if kind == "cuda" and not equals:
        found = cuda_devices(nvml)
        if not found:
            raise InputError("no GPU is found here", f"is the driver installed? nvidia-smi; or {HINT}")
        return found
    if kind == "cpu":
        count, colon, size = number.partition(":")
        found = cpu_devices(_count(text, count) if equals else None)
        return _with_memory(text, found, size) if colon else found
    if text.strip():
        raise InputError(f'"{text}" chooses no devices', HINT)
    return cuda_devices(nvml) or cpu_devices(None)


def _count(text: str, number: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= MOST_CPU_DEVICES:
        raise InputError(f'"{text}": a number of devices is 1 to {MOST_CPU_DEVICES}', HINT)
    return int(number)


def _with_memory(text: str, devices: Sequence[Device], size: str) -> list[Device]:
    """Each with so much, and no more than it would have without a word: nobody can share what is not there."""
    each_bytes = parsed_bytes(size)
    if not LEAST_MEMORY_BYTES <= each_bytes <= devices[0].memory_bytes:
        most = f"{devices[0].memory_bytes >> 20}M"
        raise InputError(f'"{text}": the memory of each device is 1M to {most} here', HINT)
    return [replace(device, memory_bytes=each_bytes) for device in devices]


def cpu_devices(
    count: int | None, cores: Collection[int] | None = None, memory_bytes: int | None = None
) -> list[Device]:
    """So many devices out of these cores; with more devices than cores, cores are shared in turn."""
    ours = sorted(os.sched_getaffinity(0) if cores is None else cores)
    count = count or len(ours)
    each_bytes = (machine_bytes() if memory_bytes is None else memory_bytes) * 9 // 10 // count
    return [
        Device(index, "cpu", "cpu", _cores_name(share), each_bytes, share)
        for index, share in enumerate(_shared_out(ours, count))
    ]


def _shared_out(cores: Sequence[int], count: int) -> list[tuple[int, ...]]:
    if count > len(cores):
        return [(cores[index % len(cores)],) for index in range(count)]
    ends = [index * len(cores) // count for index in range(count + 1)]
    return [tuple(cores[start:end]) for start, end in pairwise(ends)]


def _cores_name(cores: Sequence[int]) -> str:
    return f"core {cores[0]}" if len(cores) == 1 else f"cores {cores[0]}–{cores[-1]}"


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
    """Who computes on a GPU, and the bytes each holds there; 0 where the driver does not say."""
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
