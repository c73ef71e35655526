"""Compact columns: what a trace of a million jobs keeps in memory instead of a million objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Generic, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

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
