"""The ids of a trace's jobs: those of the file, kept as one text, or numbers where the file has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.sim.trace.column import Ints

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
