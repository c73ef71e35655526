"""The devices of this machine: GPUs by NVML, or else the cores we may use, each with a share of the memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType

from weft.core.errors import InputError
from weft.node.devices.cpu import Cpu, cpu_devices
from weft.node.devices.device import Device, DeviceKind
from weft.node.devices.nvml import Cuda, cuda_devices
from weft.node.devices.preload import NOT_SERVED, Service
from weft.system.units import parsed_bytes

HINT = (
    "cpu=4 for four devices made of this machine's cores, cpu=4:2G for so much memory each, cpu for one a core, "
    "cuda for its GPUs"
)
MOST_CPU_DEVICES = 1024
LEAST_MEMORY_BYTES = 1 << 20


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
    """Each with so much, and no more than it would have by default: what is not there cannot be shared."""
    each_bytes = parsed_bytes(size)
    if not LEAST_MEMORY_BYTES <= each_bytes <= devices[0].memory_bytes:
        most = f"{devices[0].memory_bytes >> 20}M"
        raise InputError(f'"{text}": the memory of each device is 1M to {most} here', HINT)
    return [replace(device, memory_bytes=each_bytes) for device in devices]


def kind_of(devices: Sequence[Device], nvml: ModuleType | None, service: Service = NOT_SERVED) -> DeviceKind:
    """All devices of a node are of one kind."""
    makers: dict[str, Callable[[], DeviceKind]] = {"cpu": lambda: Cpu(service), "cuda": lambda: Cuda(nvml)}
    return makers[devices[0].kind]()
