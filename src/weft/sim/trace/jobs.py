"""A trace: jobs in the order of their arrival, from files or from memory, made one by one when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from weft.core.errors import InputError
from weft.core.text import count_of
from weft.core.values import JobClass, JobSpec
from weft.sim.trace.column_store import Coded, CodedBuilder, Floats, Ids, Ints, Lookup, WrittenIds, packed


@dataclass(frozen=True, slots=True)
class TraceJob:
    spec: JobSpec
    arrival_s: float
    """Seconds after the first arrival of the trace."""
    duration_s: float
    """How long it runs alone, consolidated, on a device of speed 1 (or: declared_steps / step_rate_hz)."""


# ---- A trace: jobs in the order of their arrival, made one by one when they are asked for.

ITERATION_ROWS = 4096


class JobSource(Protocol):
    """Where a trace's jobs come from: files or a list. Rows are in the order that breaks ties."""

    @property
    def arrival_s(self) -> Floats: ...
    @property
    def duration_s(self) -> Floats: ...
    @property
    def gang_size(self) -> Ints: ...
    @property
    def ids(self) -> Ids: ...
    @property
    def tenants(self) -> Coded[str]: ...
    @property
    def job_classes(self) -> Coded[JobClass]: ...
    @property
    def device_types(self) -> Coded[frozenset[str] | None]: ...
    def specs(self, rows: Ints) -> Iterator[JobSpec]: ...
    def where(self, row: int) -> str: ...


class Trace:
    """May be iterated as often as wished; arrival is in seconds after the first."""

    def __init__(
        self,
        source: JobSource,
        name: str,
        left_out: Mapping[str, int] | None = None,
        count: int | None = None,
        ignored_columns: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.left_out: Mapping[str, int] = dict(left_out or {})
        """Rows that are no jobs to simulate, by reason."""
        self.ignored_columns = tuple(ignored_columns)
        """Columns of its files whose names mean nothing to weft."""
        self._source = source
        self._rows: Ints = np.argsort(source.arrival_s, kind="stable")[:count]

    @classmethod
    def of(cls, jobs: Iterable[TraceJob], name: str = "jobs") -> Trace:
        return cls(listed(jobs, name), name)

    def first(self, count: int) -> Trace:
        """The first so many by arrival."""
        if count < 1:
            raise InputError(f"the first {count} jobs of a trace are none", "Ask for 1 or more.")
        return Trace(self._source, self.name, self.left_out, min(count, len(self)), self.ignored_columns)

    def without(self, positions: Iterable[int]) -> Trace:
        """The other jobs; those at these positions are left out."""
        rest = Trace(self._source, self.name, self.left_out, ignored_columns=self.ignored_columns)
        rest._rows = np.delete(self._rows, list(positions))
        return rest

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[TraceJob]:
        start_s = self._source.arrival_s[self._rows[:1]]
        for i in range(0, len(self), ITERATION_ROWS):
            rows = self._rows[i : i + ITERATION_ROWS]
            arrival_s = (self._source.arrival_s[rows] - start_s).tolist()
            yield from map(TraceJob, self._source.specs(rows), arrival_s, self._source.duration_s[rows].tolist())

    def __repr__(self) -> str:
        return f"<Trace {self.name}: {count_of(len(self), 'job')}>"

    @property
    def ids(self) -> Sequence[str]:
        return Lookup(self._source.ids, self._rows)

    @property
    def tenants_by_job(self) -> Sequence[str]:
        return Lookup(self._source.tenants, self._rows)

    @property
    def classes_by_job(self) -> Sequence[str]:
        return Lookup(self._source.job_classes, self._rows)

    @cached_property
    def tenants(self) -> tuple[str, ...]:
        """Each tenant once, in the order of their first arrival."""
        return self._source.tenants.distinct(self._rows)

    @cached_property
    def device_types(self) -> frozenset[str]:
        """All types that some job names; empty where any will do."""
        return frozenset().union(*(types or () for types in self._source.device_types.distinct(self._rows)))

    @cached_property
    def largest_gang(self) -> int:
        return int(self._source.gang_size[self._rows].max(initial=0))

    def where(self, i: int) -> str:
        """Where the job at a position of the trace was described, for messages."""
        return self._source.where(self._rows[i])


# ---- Jobs that are already in memory, as a source of a trace.


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
