"""How much of their devices processes use: the time that cores spent on them, from /proc."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TypeVar

from weft.core.value import value
from weft.runtime import procfs
from weft.system import processes

USER, SYSTEM, OF_REAPED_USER, OF_REAPED_SYSTEM = 11, 12, 13, 14  # of the fields after the name
TICKS_HZ = os.sysconf("SC_CLK_TCK")

K = TypeVar("K")


@value
class Used:
    """What a family of processes has used of cores until an instant."""

    at_s: float
    cpu_s: float


def cpu_times_s(roots: Mapping[K, Collection[int]]) -> dict[K, float]:
    """What each of these families has used, with its children that have ended. Takes one look at all processes."""
    among = processes.every_process() if roots else []
    return {name: sum(map(_cpu_s, processes.family(some, among))) for name, some in roots.items()}


def _cpu_s(pid: int) -> float:
    fields = procfs.fields(pid)
    if len(fields) <= OF_REAPED_SYSTEM:
        return 0.0
    return sum(int(fields[each]) for each in (USER, SYSTEM, OF_REAPED_USER, OF_REAPED_SYSTEM)) / TICKS_HZ


def utilisation(before: Used, now: Used, cores: int) -> float:
    """The part of these cores' time that was used, 0 to 1."""
    lasted_s = (now.at_s - before.at_s) * cores
    return min(1.0, max(0.0, (now.cpu_s - before.cpu_s) / lasted_s)) if lasted_s > 0 else 0.0
