"""From the batches of one file after the other to the columns of the whole trace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weft.core.values import JobClass
from weft.sim.trace.batch import Batch
from weft.sim.trace.column import CodedBuilder, Floats, Ints
from weft.sim.trace.columns import Columns
from weft.sim.trace.ids import IdsBuilder


class Collector:
    """Takes batches and keeps them as compact columns, so that the texts of a batch can go."""

    def __init__(self) -> None:
        self._files: list[str] = []
        self._file_starts: list[int] = []
        self._count = 0
        self._ids = IdsBuilder()
        self._tenants = CodedBuilder("default")
        self._job_classes = CodedBuilder(JobClass.AUTO)
        self._device_types: CodedBuilder[frozenset[str] | None] = CodedBuilder(None)
        self._memory_bytes: CodedBuilder[int | None] = CodedBuilder(None)
        self._models = CodedBuilder("")
        self._lines: list[NDArray[np.int32]] = []
        self._gang_size: list[Ints] = []
        self._arrival_s: list[Floats] = []
        self._duration_s: list[Floats] = []
        self._skew: list[Floats] = []
        self._min_run_s: list[Floats] = []
        self._by_type_s: list[Mapping[str, Floats]] = []

    def start_file(self, name: str) -> None:
        self._files.append(name)
        self._file_starts.append(self._count)

    def add(self, batch: Batch) -> int:
        """Keeps the jobs of the batch and says how many they are."""
        count = len(batch.lines)
        self._count += count
        self._ids.add(batch.ids, count)
        self._tenants.add(batch.tenants, count)
        self._job_classes.add(batch.job_classes, count)
        self._device_types.add(batch.device_types, count)
        self._memory_bytes.add(batch.memory_bytes, count)
        self._models.add(batch.models, count)
        self._lines.append(np.array(batch.lines, np.int32))
        self._gang_size.append(batch.gang_size)
        self._arrival_s.append(batch.arrival_s)
        self._duration_s.append(batch.duration_s)
        self._skew.append(np.full(count, np.nan) if batch.skew is None else batch.skew)
        self._min_run_s.append(np.zeros(count) if batch.min_run_s is None else batch.min_run_s)
        self._by_type_s.append(batch.duration_by_type_s)
        return count

    def columns(self) -> Columns:
        return Columns(
            files=tuple(self._files),
            file_starts=tuple(self._file_starts),
            lines=np.concatenate(self._lines),
            arrival_s=np.concatenate(self._arrival_s),
            duration_s=np.concatenate(self._duration_s),
            gang_size=np.concatenate(self._gang_size),
            ids=self._ids.build(),
            tenants=self._tenants.build(),
            job_classes=self._job_classes.build(),
            device_types=self._device_types.build(),
            memory_bytes=self._memory_bytes.build(),
            models=self._models.build(),
            skew=np.concatenate(self._skew),
            min_run_s=np.concatenate(self._min_run_s),
            duration_by_type_s={name: self._on_type_s(name) for mapping in self._by_type_s for name in mapping},
        )

    def _on_type_s(self, name: str) -> Floats:
        sizes = map(len, self._lines)
        return np.concatenate(
            [by_type.get(name, np.full(size, np.nan)) for by_type, size in zip(self._by_type_s, sizes, strict=True)]
        )
