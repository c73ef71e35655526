"""Orders by a key per job."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

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
