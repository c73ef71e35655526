"""Cores as devices: their share of the memory, how tasks are bound to them, and the core time that tasks used."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

from weft.core.value import value
from weft.node.devices.device import CoreTime, Device, DeviceLimits, Environment, machine_bytes
from weft.node.devices.preload import NOT_SERVED, Service
from weft.node.devices.sched_idle import for_all_threads, threads
from weft.runtime import procfs
from weft.system import processes

USER, SYSTEM, OF_REAPED_USER, OF_REAPED_SYSTEM = 11, 12, 13, 14  # of the fields after the name
TICKS_HZ = os.sysconf("SC_CLK_TCK")

K = TypeVar("K")
TABLES_BYTES = 64 << 20
"""Of private memory, hardly any of which is ever used, that the library needs to keep account of its addresses."""


def cpu_times_s(roots: Mapping[K, Collection[int]]) -> dict[K, float]:
    """What each of these families has used, with its children that have ended. Takes one look at all processes."""
    among = processes.every_process() if roots else []
    return {name: sum(map(_cpu_s, processes.family(some, among))) for name, some in roots.items()}


def _cpu_s(pid: int) -> float:
    fields = procfs.fields(pid)
    if len(fields) <= OF_REAPED_SYSTEM:
        return 0.0
    return sum(int(fields[each]) for each in (USER, SYSTEM, OF_REAPED_USER, OF_REAPED_SYSTEM)) / TICKS_HZ


def core_utilisation(before: CoreTime, now: CoreTime, cores: int) -> float:
    """The part of these cores' time that was used, 0 to 1."""
    lasted_s = (now.at_s - before.at_s) * cores
    return min(1.0, max(0.0, (now.cpu_s - before.cpu_s) / lasted_s)) if lasted_s > 0 else 0.0


@value
class RunQueueTime:
    """Of the time since the last look: computed by all threads together; waited by the one that did so longest."""

    computed_s: float
    waited_s: float


class RunQueue:
    """The processes that step, not all their family: a process that loads data ahead may well wait."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[int, int]] = {}

    def spent(self, pids: Iterable[int]) -> RunQueueTime | None:
        """Since the last look; None where the kernel does not count it."""
        now = {thread: counted for thread in threads(set(pids)) if (counted := _counted_ns(thread)) is not None}
        before, self._before = self._before, now
        if not now:
            return None
        new = [(counted, before.get(thread, counted)) for thread, counted in now.items()]
        return RunQueueTime(sum(it[0] - was[0] for it, was in new) / 1e9, max(it[1] - was[1] for it, was in new) / 1e9)


def _counted_ns(thread: int) -> tuple[int, int] | None:
    try:
        computed, waited, _ = Path(f"/proc/{thread}/schedstat").read_text().split()
    except (OSError, ValueError):  # it has ended, or this kernel was built without
        return None
    return int(computed), int(waited)


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

    def limits(self, device_bytes: int, host_bytes: int) -> DeviceLimits:
        """The library bounds the device memory by itself. Without it, the kernel bounds all of it together."""
        both_bytes = device_bytes + host_bytes
        if not self._service.is_there:
            return DeviceLimits(both_bytes, both_bytes)
        return DeviceLimits(device_bytes, both_bytes + TABLES_BYTES if host_bytes else 0)

    def move(self, leader: int, devices: Sequence[Device]) -> None:
        cores = self.cores(devices)
        for_all_threads([leader], lambda thread: os.sched_setaffinity(thread, cores))

    def held_bytes(self, pids: Collection[int], devices: Sequence[Device]) -> int:
        return sum(processes.resident_bytes(pid) for pid in pids)

    def utilisation(self, devices: Sequence[Device], before: CoreTime, now: CoreTime) -> float:
        return core_utilisation(before, now, len(self.cores(devices)))

    def looked_at(self, devices: Sequence[Device], ours: Callable[[], Collection[int]]) -> list[Device]:
        return list(devices)
