"""Jobs that are already in memory, as a source of a trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.core.errors import InputError
from weft.core.values import JobClass, JobSpec
from weft.sim.trace.column import Coded, CodedBuilder, Floats, Ints
from weft.sim.trace.ids import WrittenIds, packed
from weft.sim.trace.job import TraceJob


@dataclass(frozen=True, slots=True)
class ListedJobs:
    name: str
    jobs: Sequence[TraceJob]
    arrival_s: Floats
    duration_s: Floats
    gang_size: Ints
    ids: WrittenIds
    tenants: Coded[str]
    job_classes: Coded[JobClass]
    device_types: Coded[frozenset[str] | None]

    def specs(self, rows: Ints) -> Iterator[JobSpec]:
        return (self.jobs[row].spec for row in rows.tolist())

    def where(self, row: int) -> str:
        return f"{self.name}, job {row + 1}"


def listed(jobs: Iterable[TraceJob], name: str) -> ListedJobs:
    kept = tuple(jobs)
    _check(kept, name)
    tenants: CodedBuilder[str] = CodedBuilder("default")
    tenants.add([job.spec.tenant for job in kept], len(kept))
    job_classes: CodedBuilder[JobClass] = CodedBuilder(JobClass.AUTO)
    job_classes.add([job.spec.job_class for job in kept], len(kept))
    device_types: CodedBuilder[frozenset[str] | None] = CodedBuilder(None)
    device_types.add([job.spec.device_types for job in kept], len(kept))
    return ListedJobs(
        name=name,
        jobs=kept,
        arrival_s=np.array([job.arrival_s for job in kept], np.float64),
        duration_s=np.array([job.duration_s for job in kept], np.float64),
        gang_size=np.array([job.spec.gang_size for job in kept], np.int64),
        ids=WrittenIds.of([packed([job.spec.id for job in kept])]),
        tenants=tenants.build(),
        job_classes=job_classes.build(),
        device_types=device_types.build(),
    )


def _check(jobs: Sequence[TraceJob], name: str) -> None:
    seen: set[str] = set()
    for i, job in enumerate(jobs, 1):
        spec = job.spec
        if spec.id in seen:
            raise InputError(f'{name}, job {i}: another job has the id "{spec.id}" already')
        if not (0 <= job.duration_s < math.inf and math.isfinite(job.arrival_s)):
            raise InputError(f"{name}, job {i}: arrival and duration are finite numbers, duration ≥ 0")
        if spec.gang_size < 1:
            raise InputError(f"{name}, job {i}: gang size {spec.gang_size}, it is at least 1")
        seen.add(spec.id)
