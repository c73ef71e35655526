"""One simulated run, and its summary: completion times, delays, fairness, utilisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.values import JobClass

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


# ---- A run in a few plain numbers.

SMALL_GANG_SIZE = 4
SHORT_S = 800.0
BIN_NAMES = ("small short", "small long", "large short", "large long")
CLASS_NAMES = (JobClass.GUARANTEED.value, JobClass.AUTO.value, JobClass.OPPORTUNISTIC.value)
"""From the one that goes first to the one that goes last, where a policy heeds classes."""


@dataclass(frozen=True)
class Bin:
    """The jobs of one size and length; the means are None when there are no such jobs."""

    count: int
    mean_jct_s: float | None
    mean_queue_s: float | None


@dataclass(frozen=True)
class ClassSummary:
    """The jobs that asked for one class; there is at least one."""

    count: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_queue_s: float


@dataclass(frozen=True)
class Summary:
    """One run in plain Python numbers. The names are those of the JSON output; `jct` is completion time."""

    jobs: int
    mean_jct_s: float
    median_jct_s: float
    p95_jct_s: float
    p99_jct_s: float
    mean_queue_s: float
    makespan_s: float
    """From the first arrival to the last finish."""
    utilisation: float
    """Device-seconds held, over what the cluster could have given in the makespan."""
    preemptions: int
    events: int
    wall_s: float
    p99_queue_s: float
    mean_rho: float | None
    """Finish-time fairness: completion time over the time alone. None when no job takes any time."""
    p99_rho: float | None
    jain: float | None
    """Jain's index over tenants of the tenant's mean 1/ρ: its progress rate relative to running alone."""
    bins: Mapping[str, Bin]
    classes: Mapping[str, ClassSummary]
    """By the class asked for, in the order of CLASS_NAMES; a class without jobs is not in it."""
    heeds_classes: bool = False
    """Whether opportunistic jobs yield to others; if not, all jobs are peers whatever their class."""
    mean_first_steps_s: float | None = None
    """From its arrival until a job had made its first 100 steps."""
    guaranteed_slowdown: float | None = None
    """Of guaranteed jobs, the mean of the time on their devices over the time alone; None if there are none."""

    @property
    def all_jobs(self) -> ClassSummary:
        """The same figures as of a class."""
        tail = (self.median_jct_s, self.p95_jct_s, self.p99_jct_s)
        return ClassSummary(self.jobs, self.mean_jct_s, *tail, self.mean_queue_s)


def summarise(run: PolicyRun) -> Summary:
    jobs = run.jobs
    if not len(jobs.ids):
        raise InputError(f"the run of {run.policy} has no jobs to measure", "give a trace with at least one job")
    jct_s, queue_s, rho = completion_s(jobs), queueing_s(jobs), finish_time_fairness(jobs)
    members = _members_by_class(jobs)
    guaranteed = members.get(JobClass.GUARANTEED)
    makespan_s = float(jobs.finish_s.max() - jobs.arrival_s.min())
    measured_rho = rho[~np.isnan(rho)]
    return Summary(
        jobs=len(jobs.ids),
        mean_jct_s=float(jct_s.mean()),
        median_jct_s=float(np.median(jct_s)),
        p95_jct_s=float(np.percentile(jct_s, 95)),
        p99_jct_s=float(np.percentile(jct_s, 99)),
        mean_queue_s=float(queue_s.mean()),
        makespan_s=makespan_s,
        utilisation=_utilisation(run, makespan_s),
        preemptions=int(jobs.preemptions.sum()),
        events=int(run.events),
        wall_s=float(run.wall_s),
        p99_queue_s=float(np.percentile(queue_s, 99)),
        mean_rho=_mean(measured_rho),
        p99_rho=float(np.percentile(measured_rho, 99)) if measured_rho.size else None,
        jain=_jain(_progress_rates(jobs, rho)),
        bins=_bins(jobs, jct_s, queue_s),
        classes={name: _class_summary(jct_s[inside], queue_s[inside]) for name, inside in members.items()},
        heeds_classes=run.heeds_classes,
        mean_first_steps_s=None if jobs.first_steps_s is None else _mean(jobs.first_steps_s - jobs.arrival_s),
        guaranteed_slowdown=None if guaranteed is None else _slowdown(jobs, guaranteed),
    )


def completion_s(jobs: JobTable) -> Floats:
    return jobs.finish_s - jobs.arrival_s


def queueing_s(jobs: JobTable) -> Floats:
    """How long each job waited, as Job.wait_s has it: nothing is held here, so that is all the time without devices.
    Rounding must not make a wait negative.
    """
    return np.maximum(completion_s(jobs) - jobs.run_s, 0.0)


def finish_time_fairness(jobs: JobTable) -> Floats:
    """ρ of each job, NaN where it says nothing: a job that takes no time, or less than a float resolves."""
    jct_s = completion_s(jobs)
    rho = np.full(len(jct_s), np.nan)
    np.divide(jct_s, jobs.alone_s, out=rho, where=(jobs.alone_s > 0) & (jct_s > 0))
    return rho


def _utilisation(run: PolicyRun, makespan_s: float) -> float:
    held_s = run.jobs.run_s if run.jobs.guest_s is None else run.jobs.run_s - run.jobs.guest_s
    held_device_s = float((run.jobs.gang_size * held_s).sum())
    return held_device_s / (run.device_count * makespan_s) if makespan_s > 0 else 0.0


def _progress_rates(jobs: JobTable, rho: Floats) -> Floats:
    """Each tenant's mean 1/ρ, leaving out tenants none of whose jobs has a ρ."""
    measured = ~np.isnan(rho)
    _, tenant = np.unique(np.asarray(jobs.tenants, dtype=object)[measured], return_inverse=True)
    counts = np.bincount(tenant)
    return np.bincount(tenant, weights=1.0 / rho[measured]) / counts


def _jain(rates: Floats) -> float | None:
    return float(rates.sum() ** 2 / (rates.size * (rates**2).sum())) if rates.size else None


def _bins(jobs: JobTable, jct_s: Floats, queue_s: Floats) -> dict[str, Bin]:
    small, short = jobs.gang_size <= SMALL_GANG_SIZE, jobs.alone_s <= SHORT_S
    members: tuple[NDArray[np.bool_], ...] = (small & short, small & ~short, ~small & short, ~small & ~short)
    return {
        name: Bin(int(inside.sum()), _mean(jct_s[inside]), _mean(queue_s[inside]))
        for name, inside in zip(BIN_NAMES, members, strict=True)
    }


def _members_by_class(jobs: JobTable) -> dict[str, NDArray[np.bool_]]:
    """Which jobs asked for each class, for the classes that some job asked for."""
    classes = np.asarray(list(jobs.classes), dtype=object)
    members = {name: classes == name for name in CLASS_NAMES}
    return {name: inside for name, inside in members.items() if inside.any()}


def _class_summary(jct_s: Floats, queue_s: Floats) -> ClassSummary:
    p95_jct_s, p99_jct_s = np.percentile(jct_s, (95, 99)).tolist()
    return ClassSummary(
        count=len(jct_s),
        mean_jct_s=float(jct_s.mean()),
        median_jct_s=float(np.median(jct_s)),
        p95_jct_s=p95_jct_s,
        p99_jct_s=p99_jct_s,
        mean_queue_s=float(queue_s.mean()),
    )


def _slowdown(jobs: JobTable, inside: NDArray[np.bool_]) -> float | None:
    some = inside & (jobs.alone_s > 0)
    return _mean(jobs.run_s[some] / jobs.alone_s[some])


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None
