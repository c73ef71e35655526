"""What one simulated run leaves behind: one row a job, one row a decision, and how it was made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class JobTable:
    """One entry a job, in arrival order. Times are seconds after the first arrival."""

    ids: Sequence[str]
    tenants: Sequence[str]
    classes: Sequence[str]
    """What each job asked for: `guaranteed`, `auto` or `opportunistic`."""
    gang_size: Ints
    arrival_s: Floats
    first_start_s: Floats
    finish_s: Floats
    alone_s: Floats
    """How long it runs alone, consolidated, on the fastest type of this cluster that it may use."""
    run_s: Floats
    """How long it had devices, held or as a guest, all attempts."""
    preemptions: Ints
    first_steps_s: Floats | None = None
    """When it had made its first 100 steps, or had ended with fewer; None where that was not measured."""
    guest_s: Floats | None = None
    """Of `run_s`, how long it sat on devices as a guest; None where that was not measured."""


@dataclass(frozen=True)
class Timeline:
    """The cluster after each decision."""

    time_s: Floats
    devices_held: Ints
    jobs_waiting: Ints


@dataclass(frozen=True)
class PolicyRun:
    """One policy over one trace on one cluster."""

    policy: str
    parameters: Mapping[str, Any]
    """Every parameter of the policy and of the world, as plain JSON values."""
    trace: str
    """The trace's name."""
    cluster: str
    device_count: int
    seed: int
    jobs: JobTable
    timeline: Timeline
    events: int
    wall_s: float
    heeds_classes: bool = False
    """Whether opportunistic jobs yield to others under this policy; if not, all jobs are peers."""


# ---- What runs are called where there is little room, and how runs of the same name are distinguished.


def short_name(policy: str) -> str:
    """The policy's name without file and parameters."""
    head, *words = policy.split(":")
    return words[0] if words and head.endswith(".py") else head


def short_labels(policies: Sequence[str]) -> list[str]:
    return numbered([short_name(policy) for policy in policies])


def numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that occurs several times."""
    times = Counter(names)
    seen: Counter[str] = Counter()
    labels = []
    for name in names:
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if times[name] > 1 else name)
    return labels
