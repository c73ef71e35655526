"""What is in a trace, as a few plain numbers: how much work, in what pieces, and when it comes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.sim.generate import busy_devices
from weft.sim.trace import Trace
from weft.sim.trace.column_store import Floats

HOUR_S = 3600.0
LEVELS = {"p10": 0.10, "p25": 0.25, "p50": 0.50, "p75": 0.75, "p90": 0.90, "p99": 0.99}


@dataclass(frozen=True)
class Overview:
    """The names are those of the JSON output."""

    trace: str
    jobs: int
    span_s: float
    """From the first arrival to the last."""
    busy_devices: float | None
    """The offered load: how many would be busy on the average over the span, if no job waited. None when all arrive at
    once."""
    duration_s: Mapping[str, float]
    device_s: Mapping[str, float]
    """Duration times gang size."""
    arrivals_per_hour: Mapping[str, float]
    """Over the hours begun since the first arrival, so that the mean never exceeds the peak."""
    gangs: Mapping[int, int]
    """Jobs with a gang of each size, by size."""
    tenants: Mapping[str, int]
    """Jobs of each, the most first."""
    models: Mapping[str, int]
    """The same; jobs that name no model are not in it."""


def overview(trace: Trace) -> Overview:
    jobs = [(job.arrival_s, job.duration_s, job.spec.gang_size, job.spec.tenant, job.spec.model) for job in trace]
    arrival, duration, gangs, tenants, models = zip(*jobs, strict=True)
    arrival_s, duration_s = np.array(arrival, np.float64), np.array(duration, np.float64)
    gang_size = np.array(gangs, np.int64)
    span_s = float(arrival_s[-1])  # they come in order, the first at 0
    return Overview(
        trace=trace.name,
        jobs=len(jobs),
        span_s=span_s,
        busy_devices=busy_devices(arrival_s, duration_s, gang_size) if span_s > 0 else None,
        duration_s=_spread(duration_s),
        device_s=_spread(duration_s * gang_size),
        arrivals_per_hour=_per_hour(arrival_s),
        gangs=dict(sorted(Counter(gangs).items())),
        tenants=_by_count(Counter(tenants)),
        models=_by_count(Counter(model for model in models if model)),
    )


def _spread(values: Floats) -> dict[str, float]:
    quantiles = np.quantile(values, list(LEVELS.values())).tolist()
    return {"mean": float(values.mean()), **dict(zip(LEVELS, quantiles, strict=True)), "max": float(values.max())}


def _per_hour(arrival_s: Floats) -> dict[str, float]:
    _, counts = np.unique(np.floor(arrival_s / HOUR_S), return_counts=True)
    hours_begun = float(np.floor(arrival_s[-1] / HOUR_S)) + 1
    return {"mean": len(arrival_s) / hours_begun, "peak": float(counts.max())}


def _by_count(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
