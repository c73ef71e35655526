"""A trace: jobs in the order of their arrival, made one by one when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from weft.core.errors import InputError
from weft.core.values import JobClass, JobSpec
from weft.core.words import counted
from weft.sim.trace.column import Coded, Floats, Ints, Lookup
from weft.sim.trace.ids import Ids
from weft.sim.trace.job import TraceJob
from weft.sim.trace.listed import listed

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
        return f"<Trace {self.name}: {counted(len(self), 'job')}>"

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
