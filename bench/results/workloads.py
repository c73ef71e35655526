"""The jobs of every experiment, by a short text such as "published philly first 20000". All chance is seeded."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import papers_jobs

from weft.core.values import JobClass, JobSpec
from weft.sim.generate import LoadSpec, generate
from weft.sim.trace import Trace, TraceJob, read_trace

FOLDER = Path(os.environ.get("TRACES", "../shared/traces"))
FILES = {"philly": "philly.csv", "helios": "helios-venus.csv", "pai": "pai-2020.csv"}
TENANTS = 5
"""Of a generated trace."""


def path_of(name: str) -> Path:
    return FOLDER / FILES[name]


@lru_cache(maxsize=2)
def jobs_of(workload: str) -> Trace:
    kind, *words = workload.split()
    return WORKLOADS[kind](*words)


def published(name: str, part: str, jobs: str) -> Trace:
    """The first jobs of a file by arrival, or those after the first half of it, from time 0."""
    if part == "first":
        return read_trace([path_of(name)], first=int(jobs))
    everything = read_trace([path_of(name)])
    middle = len(everything) // 2
    return Trace.of(islice(everything, middle, middle + int(jobs)), f"{name}, second half")


def classed(name: str, jobs: str) -> Trace:
    """Two thirds of the jobs are guaranteed, by their ids; the others are opportunistic."""
    return Trace.of(map(_with_class, published(name, "first", jobs)), f"{name}, with classes")


def _with_class(job: TraceJob) -> TraceJob:
    is_guaranteed = zlib.crc32(job.spec.id.encode()) % 3 < 2
    job_class = JobClass.GUARANTEED if is_guaranteed else JobClass.OPPORTUNISTIC
    return replace(job, spec=replace(job.spec, job_class=job_class))


def generated(like: str, load: str, jobs: str, devices: str, seed: str) -> Trace:
    drawn = generate(LoadSpec(like, int(jobs), float(load), int(devices), seed=int(seed), tenants=TENANTS))
    columns = (drawn.arrival_s, drawn.duration_s, drawn.gang_size, drawn.tenant)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return Trace.of(
        (
            TraceJob(JobSpec(f"job-{i}", gang, f"tenant-{tenant}", declared_steps=duration_s), arrival_s, duration_s)
            for i, (arrival_s, duration_s, gang, tenant) in enumerate(rows)
        ),
        f"like {like}, load {load}",
    )


WORKLOADS: Mapping[str, Callable[..., Trace]] = {
    "published": published,
    "classed": classed,
    "generated": generated,
    **papers_jobs.WORKLOADS,
}
