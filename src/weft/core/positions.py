"""Positions of waiting jobs in the queue, for listings that ask for many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.core.job import Job


class Positions(Protocol):
    """Valid until the ledger changes."""

    def of(self, job: Job) -> int | None:
        """Its position, counted from 1; None if it does not wait."""
        ...

    def front(self, count: int) -> list[Job]:
        """The jobs that go first, at most so many."""
        ...


class SortedPositions:
    """From the whole queue, already in order. It takes time in proportion to the queue's length to make."""

    def __init__(self, line: Sequence[Job]) -> None:
        self._line = line
        self._positions = {job.id: at for at, job in enumerate(line, 1)}

    def of(self, job: Job) -> int | None:
        return self._positions.get(job.id)

    def front(self, count: int) -> list[Job]:
        return list(self._line[:count])
