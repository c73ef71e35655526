"""The jobs of a trace as compact columns: a million jobs without a million objects."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from weft.core.values import JobClass, JobSpec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

K = TypeVar("K", bound=Hashable)


class Codes(dict[K, int], Generic[K]):
    """Numbers each distinct value as it is first looked up."""

    def __missing__(self, value: K) -> int:
        code = self[value] = len(self)
        return code


@dataclass(frozen=True, slots=True)
class Coded(Generic[K]):
    """One code a job and each distinct value once."""

    codes: NDArray[np.int32]
    values: tuple[K, ...]

    def __getitem__(self, row: int) -> K:
        return self.values[int(self.codes[row])]

    def take(self, rows: Ints) -> Iterator[K]:
        return map(self.values.__getitem__, self.codes[rows].tolist())

    def distinct(self, rows: Ints) -> tuple[K, ...]:
        """Each value that these rows have, in the order in which it first appears."""
        codes, firsts = np.unique(self.codes[rows], return_index=True)
        return tuple(self.values[code] for code in codes[np.argsort(firsts)])


class CodedBuilder(Generic[K]):
    """Collects a coded column batch by batch."""

    def __init__(self, default: K) -> None:
        self._default = default
        self._codes: Codes[K] = Codes()
        self._batches: list[NDArray[np.int32]] = []

    def add(self, values: Sequence[K] | None, count: int) -> None:
        given = repeat(self._default) if values is None else values
        self._batches.append(np.fromiter(map(self._codes.__getitem__, given), np.int32, count))

    def build(self) -> Coded[K]:
        return Coded(np.concatenate(self._batches), tuple(self._codes))


class Texts(Protocol):
    def __getitem__(self, row: int, /) -> str: ...


class Lookup(Sequence[str]):
    """The texts of some rows by position, each made when it is asked for."""

    def __init__(self, texts: Texts, rows: Ints) -> None:
        self._texts = texts
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return map(self._texts.__getitem__, self._rows.tolist())

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[str]: ...
    def __getitem__(self, index: int | slice) -> str | Sequence[str]:
        if isinstance(index, slice):
            return Lookup(self._texts, self._rows[index])
        return self._texts[self._rows[index]]


# ---- All jobs of all files of a trace as compact columns, from which a JobSpec is made when one is asked for.


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


# ---- What a form makes of a few thousand rows: columns with the meaning they have in a JobSpec.


@dataclass(frozen=True, slots=True)
class RowBatch:
    """One entry a job in each column; a column that the trace does not have is None."""

    lines: Sequence[int]
    arrival_s: Floats
    """On the clock of the file: seconds since its own zero, or since 1970 where it has dates."""
    duration_s: Floats
    gang_size: Ints
    ids: Sequence[str] | None = None
    tenants: Sequence[str] | None = None
    job_classes: Sequence[JobClass] | None = None
    device_types: Sequence[frozenset[str] | None] | None = None
    duration_by_type_s: Mapping[str, Floats] = field(default_factory=dict)
    """NaN where the job does not run on the type."""
    memory_bytes: Sequence[int | None] | None = None
    skew: Floats | None = None
    min_run_s: Floats | None = None
    models: Sequence[str] | None = None


# ---- The ids of a trace's jobs: those of the file, kept as one text, or numbers where the file has none.

Packed = tuple[str, Ints]
"""Texts end to end, and the length of each."""


def packed(texts: Sequence[str]) -> Packed:
    return "".join(texts), np.fromiter(map(len, texts), np.int64, len(texts))


class Ids(Protocol):
    def __getitem__(self, row: int) -> str: ...
    def take(self, rows: Ints) -> Iterator[str]: ...
    def perhaps_repeated(self) -> Ints:
        """The rows, few or none, whose id may also be that of another row."""
        ...


@dataclass(frozen=True, slots=True)
class NumberedIds:
    """job-0001, job-0002, … by row; padded, so that they sort as texts the way the rows are ordered."""

    count: int

    def __getitem__(self, row: int) -> str:
        return f"job-{row + 1:0{len(str(self.count))}}"

    def take(self, rows: Ints) -> Iterator[str]:
        width = len(str(self.count))
        return (f"job-{number:0{width}}" for number in (rows + 1).tolist())

    def perhaps_repeated(self) -> Ints:
        return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class WrittenIds:
    """The ids of all files end to end, and the edges between them."""

    text: str
    edges: Ints

    @classmethod
    def of(cls, batches: Iterable[Packed]) -> WrittenIds:
        texts, lengths = zip(*batches, strict=True)
        return cls("".join(texts), np.cumsum(np.concatenate([[0], *lengths])))

    def __getitem__(self, row: int) -> str:
        return self.text[self.edges[row] : self.edges[row + 1]]

    def take(self, rows: Ints) -> Iterator[str]:
        text = self.text
        spans = zip(self.edges[rows].tolist(), self.edges[rows + 1].tolist(), strict=True)
        return (text[start:end] for start, end in spans)

    def perhaps_repeated(self) -> Ints:
        # Hashes side by side are compact; a set of all ids would be an object a job.
        count = len(self.edges) - 1
        hashes = np.fromiter(map(hash, self.take(np.arange(count))), np.int64, count)
        order = np.argsort(hashes, kind="stable")
        same = np.flatnonzero(np.diff(hashes[order]) == 0)
        return np.unique(order[np.concatenate([same, same + 1])])


class IdsBuilder:
    """Collects the ids batch by batch; a file without ids is numbered when all rows are counted."""

    def __init__(self) -> None:
        self._batches: list[Packed | None] = []
        self._counts: list[int] = []

    def add(self, ids: Sequence[str] | None, count: int) -> None:
        self._batches.append(None if ids is None else packed(ids))
        self._counts.append(count)

    def build(self) -> Ids:
        numbered = NumberedIds(sum(self._counts))
        if not any(self._batches):
            return numbered
        ends = np.cumsum(self._counts)
        return WrittenIds.of(
            batch or packed(list(numbered.take(np.arange(end - count, end))))
            for batch, count, end in zip(self._batches, self._counts, ends, strict=True)
        )
