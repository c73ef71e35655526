"""AlloX: which jobs compete, the shortest on each type, and the min-cost matching of jobs to devices."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.base import QueueOrder
from weft.policies.plan.free_devices import devices_by_type, fastest_first, free_by_type, type_of
from weft.policies.plan.full_scan import FullScan
from weft.system.extras import require_packages

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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
        require_packages("the policy allox", "numpy", "scipy")
        if not self.n_max >= 1 or self.n_max != int(self.n_max):
            raise InputError(f"n_max {self.n_max:g} leaves no job to match", "give 1 or more; the paper uses 50")
        if not 0 < self.assume_s < math.inf:
            raise InputError(f"assume_s {self.assume_s:g} is not above 0", "the default is 3600")

    def pairs(self, view: View, builder: FullScan, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
        rest = iter(line)
        jobs = list(islice(rest, self.n_max))
        while jobs and any(builder.room.total.values()):
            positions, costs = self._costs(jobs, view, builder)
            started: set[str] = set()
            while jobs and not started:
                first = self._first_on_free_devices(jobs, positions, costs)
                for job, kind in first:
                    yield job, (kind,)
                    if job.id in builder.running:
                        started.add(job.id)
                done = {job.id for job, _ in first}
                if len(started) == len(done):
                    return
                stays = [job.id not in done for job in jobs]  # jobs that were first and did not start are left out
                jobs, costs = [job for job, stay in zip(jobs, stays, strict=True) if stay], costs[stays]
            room = self.n_max - len(jobs)
            jobs += islice((job for job in rest if _fits_now(job, builder)), room)  # in place of those left out

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

    def _costs(self, jobs: list[Job], view: View, builder: FullScan) -> tuple[list[Position], NDArray[np.float64]]:
        """One row a job, one column a position. Of each type only positions that some optimum could use.

        For the k-th from the end of the r-th device to become free there are r·k − 1 others that cost no more for any
        job. With n jobs, those with r·k > n are never needed: one of the cheaper ones is always left.
        """
        import numpy as np  # a policy that needs no matrix does without

        positions: list[Position] = []
        blocks = []
        for kind, group in builder.room.groups.items():
            free = builder.room.total[kind]
            waits_s = self._free_in_s(kind, len(jobs), view, builder)
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

    def _free_in_s(self, kind: str, count: int, view: View, builder: FullScan) -> list[float]:
        """How soon the first `count` devices of a type are free, soonest first."""
        free = min(builder.room.total[kind], count)
        busy: list[float] = []
        for job_id in builder.running:
            job = view.jobs[job_id]
            if job_id in builder.started:
                if builder.started[job_id] == kind:
                    busy += [run_s(job, kind, self.assume_s)] * job.gang_size
            elif type_of(job, view) == kind:
                left_s = self.assume_s if job.spec.declared_steps is None else job.remaining_s(view.now)
                busy += [left_s] * job.gang_size
        return [0.0] * free + nsmallest(count - free, busy)


def _fits_now(job: Job, builder: FullScan) -> bool:
    return any(job.spec.allows(kind) and free >= job.gang_size for kind, free in builder.room.total.items())


# ---- How long a job would take on a device type, from its declared work and its rate there.


def run_s(job: Job, kind: str, assume_s: float) -> float:
    """Of what is left to do, for a job that waits."""
    declared_steps = job.spec.declared_steps
    if declared_steps is None:
        return assume_s
    return max(0.0, declared_steps - job.settled_steps) / job.spec.rate_hz(kind)


# ---- AlloX's choice of jobs to match: the shortest jobs on each device type in turn.


@dataclass
class ShortestOnEachType(QueueOrder):
    assume_s: float
    """What a job that declares no work is taken to need."""
    by_type: dict[str, list[tuple[float, tuple[float, int], Job]]] = field(default_factory=dict, init=False, repr=False)
    version: int = field(default=0, init=False, repr=False)

    rule = "matched to device types so that the sum of completion times is least"

    def line(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> Iterator[Job]:
        chosen: set[str] = set()
        lists = [self._candidates(kind, builder, admitted) for kind in self.by_type]
        while lists:
            for one in list(lists):
                job = next((job for job in one if job.id not in chosen), None)
                if job is None:
                    lists.remove(one)
                else:
                    chosen.add(job.id)
                    yield job

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        free = free_by_type(view)
        kinds = fastest_first(job.spec, free)
        if any(free[kind] >= job.gang_size for kind in kinds):
            return Reason(Code.BETTER_LATER, (kinds[0],))
        return None

    def _candidates(self, kind: str, builder: FullScan, admitted: frozenset[str] | None) -> Iterator[Job]:
        return (
            job
            for _, _, job in self.by_type[kind]
            if job.id not in builder.running and (admitted is None or job.tenant in admitted)
        )

    def prepare(self, view: View) -> None:
        """Keep the waiting jobs of each type sorted by how long they take there."""
        if self.version != view.version:
            self.by_type = {kind: [] for kind in devices_by_type(view)}
            self._insert(view.jobs.values())
        else:
            changed = {job.id: job for change, job in view.changes if change is not Change.LEFT}
            for rows in self.by_type.values():
                rows[:] = [row for row in rows if row[2].is_waiting and row[2].id not in changed]
            self._insert(changed.values())
        self.version = view.version

    def _insert(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.is_waiting:
                for kind, rows in self.by_type.items():
                    if job.spec.allows(kind):
                        insort(rows, (job.gang_size * run_s(job, kind, self.assume_s), job.tie, job))


# ---- AlloX's fairness: only the tenants with the least progress compete, until devices would stay free.


@dataclass(frozen=True)
class LeastProgress:
    """A tenant's progress is the sum over its running jobs of the share of its best type's devices that the job
    holds, times its speed where it runs over its speed on that best type: progress counts, not device-seconds.
    """

    alpha: float
    """The part of the tenants that compete; doubled as long as devices stay free."""

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise InputError(f"alpha {self.alpha:g} is not a share of tenants", "give a number above 0 and up to 1")

    def rounds(self, view: View) -> Iterator[frozenset[str]]:
        progress = _progress(view)
        tenants = sorted(progress, key=lambda tenant: (progress[tenant], tenant))
        alpha, admitted = self.alpha, 0
        while admitted < len(tenants):
            wider = math.ceil(min(1.0, alpha) * len(tenants))
            if wider > admitted:
                admitted = wider
                yield frozenset(tenants[:admitted])
            alpha *= 2


def _progress(view: View) -> dict[str, float]:
    progress = {job.tenant: 0.0 for job in view.jobs.values() if job.is_waiting or job.is_running}
    counts = devices_by_type(view)
    for job in view.running.values():
        best = max((kind for kind in counts if job.spec.allows(kind)), key=job.spec.rate_hz)
        progress[job.tenant] += job.gang_size / counts[best] * job.rate_hz / job.spec.rate_hz(best)
    return progress
