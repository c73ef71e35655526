"""Who is told how far a simulation has come."""

from __future__ import annotations

from collections.abc import Sequence

from weft.sim.request import Misfit
from weft.sim.trace import Trace


class Watcher:
    """Does not listen; derive from it to."""

    def skipped(self, misfits: Sequence[Misfit], jobs: int) -> None:
        """Of so many jobs, these could never run and are left out of all runs."""

    def begins(self, trace: Trace, policies: Sequence[str]) -> None:
        """All has been read and checked; the runs start now."""

    def progressed(self, finished: Sequence[int]) -> None:
        """So many jobs have finished in each of the runs; told now and then."""
