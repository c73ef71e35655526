"""AlloX: a min-cost matching of jobs to positions in the queues of interchangeable devices.

A job that is k-th from the end of a device's queue delays itself and the k − 1 jobs after it, so it adds k times its
run time there to the sum of completion times, and the time until the device is free. The cheapest assignment of all
jobs to (device, k) is the offline optimum; online it is solved anew at each arrival and completion, and only the job
that comes first on a free device starts. Nobody is preempted.

The published code is not followed where it is wrong: fairness filters tenants (not jobs, and not nobody), k counts
from the end, and the time until a device is free belongs to the device.

Gangs are outside the paper. Here a gang of g is matched as if it were one job that takes g times as long on one
device (its device-time, as in 2D-LAS); it starts when g devices of the type are free. If it comes first and they are
not, it waits, and the matching is solved again without it, so that devices do not stand idle for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.draft import Draft
from weft.policies.match.times import run_s
from weft.policies.types import fastest_first, type_of

FLATTER_S = 1e-6
"""Added for each position, so that of equally good matchings the one with the shorter queues is taken."""

NEVER = 1e15
"""Costs of a device type that the job may not use: finite, because the solver wants numbers."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the queue of one device: k-th from its end."""

    kind: str
    device: int
    """Counted from the one of its type that is free first."""
    is_free: bool
    k: int


@dataclass(frozen=True)
class AlloxMatching:
    n_max: int
    """How many jobs are matched at once."""
    assume_s: float
    """What a job that declares no work is taken to need."""

    is_static: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.n_max >= 1 or self.n_max != int(self.n_max):
            raise InputError(f"n_max {self.n_max:g} leaves nobody to match", "give 1 or more; the paper uses 50")
        if not 0 < self.assume_s < math.inf:
            raise InputError(f"assume_s {self.assume_s:g} is not above 0", "the default is 3600")

    def pairs(self, view: View, draft: Draft, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
        rest = iter(line)
        jobs = list(islice(rest, self.n_max))
        while jobs and any(draft.room.total.values()):
            positions, costs = self._costs(jobs, view, draft)
            started: set[str] = set()
            while jobs and not started:
                first = self._first_on_free_devices(jobs, positions, costs)
                for job, kind in first:
                    yield job, (kind,)
                    if job.id in draft.running:
                        started.add(job.id)
                done = {job.id for job, _ in first}
                if len(started) == len(done):
                    return
                stays = [job.id not in done for job in jobs]  # who came first and did not start is left out
                jobs, costs = [job for job, stay in zip(jobs, stays, strict=True) if stay], costs[stays]
            room = self.n_max - len(jobs)
            jobs += islice((job for job in rest if _fits_now(job, draft)), room)  # in place of those left out

    def types(self, spec: JobSpec, present: Sequence[str]) -> tuple[str, ...]:
        return fastest_first(spec, present)

    def _first_on_free_devices(
        self, jobs: list[Job], positions: list[Position], costs: NDArray[np.float64]
    ) -> list[tuple[Job, str]]:
        """Solve; of each free device's queue the job that is furthest from the end, by arrival."""
        from scipy.optimize import linear_sum_assignment  # costs a third of a second that others need not pay

        rows, columns = linear_sum_assignment(costs)
        first: dict[tuple[str, int], tuple[int, Job]] = {}
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            position = positions[column]
            if position.is_free and costs[row, column] < NEVER:
                rival = first.get((position.kind, position.device))
                if rival is None or position.k > rival[0]:
                    first[position.kind, position.device] = (position.k, jobs[row])
        return sorted(((job, kind) for (kind, _), (_, job) in first.items()), key=lambda pair: pair[0].tie)

    def _costs(self, jobs: list[Job], view: View, draft: Draft) -> tuple[list[Position], NDArray[np.float64]]:
        """One row a job, one column a position. Of each type only positions that some optimum could use.

        For the k-th from the end of the r-th device to become free there are r·k − 1 others that cost no more for any
        job. With n jobs, those with r·k > n are never needed: one of the cheaper ones is always left.
        """
        positions: list[Position] = []
        blocks = []
        for kind, group in draft.room.groups.items():
            free = draft.room.total[kind]
            waits_s = self._free_in_s(kind, len(jobs), view, draft)
            own = [
                Position(kind, r, r < free, k) for r in range(len(waits_s)) for k in range(1, len(jobs) // (r + 1) + 1)
            ]
            allowed = np.array([job.spec.allows(kind) and group.could_hold(job.gang_size) for job in jobs])
            needs_s = np.array([job.gang_size * run_s(job, kind, self.assume_s) for job in jobs])
            k = np.array([position.k for position in own], dtype=float)
            wait = np.array([waits_s[position.device] for position in own])
            blocks.append(np.where(allowed[:, None], wait + k * (needs_s[:, None] + FLATTER_S), NEVER))
            positions += own
        return positions, np.hstack(blocks)

    def _free_in_s(self, kind: str, count: int, view: View, draft: Draft) -> list[float]:
        """How soon the first `count` devices of a type are free, soonest first."""
        free = min(draft.room.total[kind], count)
        busy: list[float] = []
        for job_id in draft.running:
            job = view.jobs[job_id]
            if job_id in draft.started:
                if draft.started[job_id] == kind:
                    busy += [run_s(job, kind, self.assume_s)] * job.gang_size
            elif type_of(job, view) == kind:
                left_s = self.assume_s if job.spec.declared_steps is None else job.remaining_s(view.now)
                busy += [left_s] * job.gang_size
        return [0.0] * free + nsmallest(count - free, busy)


def _fits_now(job: Job, draft: Draft) -> bool:
    return any(job.spec.allows(kind) and free >= job.gang_size for kind, free in draft.room.total.items())
