"""Runs made by hand or from a seed, so that tests and figures have something to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.sim.results.summary import JobTable, PolicyRun, Timeline


def job_table(
    arrival_s: Sequence[float],
    finish_s: Sequence[float],
    run_s: Sequence[float],
    *,
    alone_s: Sequence[float] | None = None,
    gang_size: Sequence[int] | None = None,
    tenants: Sequence[str] | None = None,
    preemptions: Sequence[int] | None = None,
    classes: Sequence[str] | None = None,
) -> JobTable:
    count = len(arrival_s)
    return JobTable(
        ids=[f"job-{number}" for number in range(count)],
        tenants=tenants or ["ada"] * count,
        classes=classes or ["auto"] * count,
        gang_size=np.array(gang_size or [1] * count, dtype=np.int64),
        arrival_s=np.array(arrival_s, dtype=np.float64),
        first_start_s=np.array(arrival_s, dtype=np.float64),
        finish_s=np.array(finish_s, dtype=np.float64),
        alone_s=np.array(run_s if alone_s is None else alone_s, dtype=np.float64),
        run_s=np.array(run_s, dtype=np.float64),
        preemptions=np.array(preemptions or [0] * count, dtype=np.int64),
    )


def make_run(
    jobs: JobTable, policy: str = "fifo", parameters: Mapping[str, Any] | None = None, **changes: Any
) -> PolicyRun:
    changes.setdefault("device_count", 4)
    changes.setdefault("timeline", timeline_of(jobs))
    return PolicyRun(
        policy=policy,
        parameters=parameters if parameters is not None else {"quantum_s": 60.0},
        trace=changes.pop("trace", "sample"),
        cluster=changes.pop("cluster", "1x4"),
        seed=changes.pop("seed", 7),
        jobs=jobs,
        events=changes.pop("events", 2 * len(jobs.ids)),
        wall_s=changes.pop("wall_s", 0.25),
        **changes,
    )


def timeline_of(jobs: JobTable) -> Timeline:
    """The cluster as it would be if each job ran in one piece, right before its finish."""
    start_s = jobs.finish_s - jobs.run_s
    times = np.concatenate([jobs.arrival_s, start_s, jobs.finish_s])
    zero = np.zeros_like(jobs.gang_size)
    held = np.concatenate([zero, jobs.gang_size, -jobs.gang_size])
    waiting = np.concatenate([zero + 1, zero - 1, zero])
    order = np.argsort(times, kind="stable")
    return Timeline(times[order], np.cumsum(held[order]), np.cumsum(waiting[order]))


def synthetic_run(
    policy: str, *, jobs: int = 500, slowness: float = 1.0, seed: int = 3, **parameters: Any
) -> PolicyRun:
    """A plausible run: the same jobs for every policy, which wait longer the slower the policy is."""
    chance = np.random.default_rng(seed)
    arrival_s = np.sort(chance.uniform(0, 6 * 86_400, jobs))
    arrival_s -= arrival_s[0]
    alone_s = chance.lognormal(7.2, 1.7, jobs)
    wait_s = chance.lognormal(6.5, 2.0, jobs) * slowness * (chance.random(jobs) < 0.7)
    rush = 1 + 3 * np.exp(-(((arrival_s - 3 * 86_400) / 40_000) ** 2))
    table = job_table(
        arrival_s.tolist(),
        (arrival_s + wait_s * rush + alone_s).tolist(),
        alone_s.tolist(),
        gang_size=chance.choice([1, 1, 1, 2, 4, 8, 16], jobs).tolist(),
        tenants=chance.choice(["ada", "bo", "cy"], jobs).tolist(),
        preemptions=chance.poisson(0.4, jobs).tolist(),
    )
    return make_run(table, policy, parameters or {"quantum_s": 60.0}, device_count=256, cluster="32x8")
