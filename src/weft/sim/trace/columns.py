"""All jobs of all files of a trace as compact columns, from which a JobSpec is made when one is asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from weft.core.values import JobClass, JobSpec
from weft.sim.trace.column import Coded, Floats, Ints
from weft.sim.trace.ids import Ids


@dataclass(frozen=True, slots=True)
class Columns:
    """Row by row in the order of the files, which is the order that breaks ties."""

    files: Sequence[str]
    file_starts: Sequence[int]
    lines: NDArray[np.int32]
    arrival_s: Floats
    duration_s: Floats
    gang_size: Ints
    ids: Ids
    tenants: Coded[str]
    job_classes: Coded[JobClass]
    device_types: Coded[frozenset[str] | None]
    memory_bytes: Coded[int | None]
    models: Coded[str]
    skew: Floats
    min_run_s: Floats
    duration_by_type_s: Mapping[str, Floats]

    def specs(self, rows: Ints) -> Iterator[JobSpec]:
        # In the order of JobSpec's fields: by position is the fastest way to make many.
        return map(
            JobSpec,
            self.ids.take(rows),
            self.gang_size[rows].tolist(),
            self.tenants.take(rows),
            self.job_classes.take(rows),
            self.device_types.take(rows),
            self.duration_s[rows].tolist(),
            self._step_rates_hz(rows),
            self.memory_bytes.take(rows),
            [None if skew != skew else skew for skew in self.skew[rows].tolist()],  # not a number: not known
            self.min_run_s[rows].tolist(),
            self.models.take(rows),
        )

    def where(self, row: int) -> str:
        return f"{self.files[self.file_of(row)]}, line {self.lines[row]}"

    def file_of(self, row: int) -> int:
        return bisect_right(self.file_starts, row) - 1

    def _step_rates_hz(self, rows: Ints) -> Iterable[Mapping[str, float]]:
        if not self.duration_by_type_s:
            return repeat({})
        # A job has as many steps as its first type takes seconds; NaN marks a type it does not run on.
        steps = self.duration_s[rows]
        rates_by_type = [(steps / on_type_s[rows]).tolist() for on_type_s in self.duration_by_type_s.values()]
        types = tuple(self.duration_by_type_s)
        by_job = (zip(types, rates, strict=True) for rates in zip(*rates_by_type, strict=True))
        return ({name: rate for name, rate in rates if rate == rate} or {} for rates in by_job)
