"""Orders by a key per job: their base class, and those that need little more than their key (FIFO, SRTF, SRSF, LAS)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.base import Key, QueueOrder

if TYPE_CHECKING:
    from weft.policies.plan.full_scan import FullScan


class KeyedOrder(QueueOrder):
    """Derive from this and write `key`; the fast planner does the rest."""

    rule = "by a key of its own"
    drifts = False
    """Whether keys of running jobs move with time, so that they must be ranked anew at each decision."""
    is_moved_by_eviction = True
    """Whether losing its devices may change a job's key at that instant; say no if you can, it saves work."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "blocks" in vars(cls) and "may_block" not in vars(cls):
            cls.may_block = True

    # ---- the key

    def key(self, job: Job, now: float) -> Key:
        """Its rank now: a tuple that ends with `job.tie`.

        A waiting job's key stays until `changes_at`; a running one's too, unless it drifts.
        """
        raise NotImplementedError

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        """When its key will change by itself, if it keeps running (or waiting) from now on."""
        return math.inf

    def touch(self, job: Job, now: float) -> None:
        """Its time to change may have come: the place for an order to take note before the key is read."""

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        """When to decide again though no key changes by itself: the end of a quantum."""
        return math.inf

    # ---- the line, from the keys alone

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        return self.key(job, now) < self.key(other, now)

    def prepare(self, view: View) -> None:
        self.learn(view)
        for job in view.jobs.values():
            if _in_line(job, True):
                self.touch(job, view.now)

    def line(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> list[Job]:
        """All jobs that may start, sorted by key."""
        now = view.now
        jobs = [job for job in view.jobs.values() if _in_line(job, self.preempts)]
        if self.may_reserve:
            jobs = [job for job in jobs if job.is_running or not self.is_barred(job)]
        return sorted(jobs, key=lambda job: self.key(job, now))

    def rank(self, view: View, job: Job) -> Key:
        return self.key(job, view.now)

    def eviction_line(self, view: View) -> list[Job]:
        now = view.now
        return sorted(view.running.values(), key=lambda job: self.key(job, now))

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        """The first time at which any key changes."""
        now = view.now
        live = (job for job in view.jobs.values() if _in_line(job, True))
        change_at = min((later(self.changes_at(job, now, job.id in running), now) for job in live), default=math.inf)
        return min(change_at, self.look_again_at(now, jobs_waiting))

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        return self.why_behind(view, job, could_hold, view.jobs.values())

    def why_behind(
        self, view: View, job: Job, could_hold: Callable[[Job], bool], candidates: Iterable[Job]
    ) -> Reason | None:
        """The same, if the first of the jobs that block is among the candidates."""
        barred = self.why_barred(job)
        if barred is not None:
            return barred
        key, now = self.key(job, view.now), view.now
        waiting = [other for other in candidates if _in_line(other, False) and self.blocks(other, now)]
        ahead = sorted((one, other) for other in waiting if (one := self.key(other, now)) < key)
        head = next((other for _, other in ahead if could_hold(other)), None)
        return None if head is None else Reason(Code.BEHIND_HEAD, (head.id, head.gang_size))


def later(time_s: float, now: float) -> float:
    """A time after now: rounding must not make a policy wake up at the instant it is in, for ever."""
    return time_s if time_s > now else math.nextafter(now, math.inf)


def _in_line(job: Job, with_running: bool) -> bool:
    return job.is_waiting or (with_running and job.is_running)


@dataclass
class Fifo(KeyedOrder):
    """By arrival. Strict: the head of the queue blocks. Otherwise jobs that do not fit are skipped (backfill).

    A head that the devices that are there could not hold is passed by, whether a node is lost for good or will be
    back: that is not known, and all others would stand still. When its devices are there again it is the head again.
    """

    strict: bool

    rule = "first come, first served"
    blockers_come_first = True  # all do, or none

    def __post_init__(self) -> None:
        self.may_block = self.strict

    def key(self, job: Job, now: float) -> Key:
        return (job.tie,)

    def blocks(self, job: Job, now: float) -> bool:
        return self.strict


@dataclass
class Srtf(KeyedOrder):
    """Shortest remaining first, for jobs that declare their work: by time (SRTF), or by device-time (SRSF).

    Remaining time is that on the job's best type: were it that of the type it runs on, two jobs of different
    speeds could each be the shorter one while it waits, and preempt each other for ever.
    """

    by_service: bool
    """Multiply by the gang size."""

    rule = "the shortest remaining work goes first"
    preempts = True
    is_moved_by_eviction = False
    drifts = True

    def key(self, job: Job, now: float) -> Key:
        remaining_s = job.remaining_at_best_s(now)
        return (remaining_s * job.gang_size if self.by_service else remaining_s, job.tie)


ROUNDING = 1e-9
"""A decision at the end of a quantum is in the next one, however the division is rounded."""


@dataclass
class Las(KeyedOrder):
    """2D-LAS, continuous: least attained device-seconds first, looked at anew after every quantum.

    What a running job attains counts from the end of the quantum.

    Quanta are the same for all jobs. If service counted at once, the job that was chosen at one decision would be
    behind those it was chosen from at the next, and jobs would be preempted as often as anything at all happens.
    """

    quantum_s: float

    rule = "the job with the least device-time goes first"
    preempts = True
    drifts = True

    def __post_init__(self) -> None:
        if not self.quantum_s > 0:
            raise InputError(f"quantum_s {self.quantum_s:g} is not above 0", "the default is 600")

    def key(self, job: Job, now: float) -> Key:
        if not job.is_running:
            return (job.attained(now), job.tie)
        served_s = max(0.0, now - max(job.served_from_s, self._quanta(now) * self.quantum_s))
        return (job.attained(now) - job.gang_size * job.speed * served_s, job.tie)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return (self._quanta(now) + 1) * self.quantum_s if jobs_waiting else math.inf

    def _quanta(self, now: float) -> int:
        return math.floor(now / self.quantum_s + ROUNDING)
