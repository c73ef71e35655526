"""A bound on bypass: no job waits for ever behind a stream of jobs that go before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Reason
from weft.core.sharing import Note
from weft.core.text import duration_text
from weft.core.transitions import State
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder


@dataclass
class BypassBound(KeyedOrder):
    """A job that has waited `limit_s` without a break goes before all others, to its end.

    While it does not fit, no job behind it starts: devices that become free are kept for it, if those that are there
    could ever hold it. Under lasting overload every job becomes overdue and the order degenerates to first come, first
    served.
    """

    inner: KeyedOrder
    limit_s: float
    overdue: set[str] = field(default_factory=set, init=False, repr=False)

    may_block = True

    def __post_init__(self) -> None:
        checked_limit_s(self.limit_s)
        self.rule = f"{self.inner.rule}; but a job that has waited {duration_text(self.limit_s)} goes before all others"
        self.preempts = self.inner.preempts
        self.drifts = self.inner.drifts
        self.blockers_come_first = not self.inner.may_block or self.inner.blockers_come_first
        self.returns_home = self.inner.returns_home
        self.heeds_measures = self.inner.heeds_measures
        self.heeds_classes = self.inner.heeds_classes
        self.is_moved_by_eviction = self.inner.is_moved_by_eviction

    def key(self, job: Job, now: float) -> Key:
        if self._goes_first(job):
            return (0, job.tie)
        return (1, *self.inner.key(job, now))

    def blocks(self, job: Job, now: float) -> bool:
        return self._goes_first(job) or self.inner.blocks(job, now)

    def is_barred(self, job: Job) -> bool:
        return self.inner.is_barred(job)

    def why_barred(self, job: Job) -> Reason | None:
        return self.inner.why_barred(job)

    def is_guaranteed(self, job: Job) -> bool:
        return self.inner.is_guaranteed(job)

    def is_owed(self, job: Job) -> bool:
        return self.inner.is_owed(job)

    def reserves(self, job: Job) -> bool:
        return self.inner.reserves(job)

    def heeds_reservations(self, job: Job) -> bool:
        return self.inner.heeds_reservations(job)

    def notes(self) -> Sequence[Note]:
        return self.inner.notes()

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        inner = self.inner.changes_at(job, now, is_running)
        if is_running or job.id in self.overdue or not self.is_owed(job):
            return inner
        waiting_since_s = now if job.is_running else job.since_s
        return min(inner, waiting_since_s + self.limit_s)

    def touch(self, job: Job, now: float) -> None:
        self.inner.touch(job, now)
        if job.is_waiting and now + EPSILON_S >= job.since_s + self.limit_s and self.is_owed(job):
            self.overdue.add(job.id)

    def learn(self, view: View) -> bool:
        for change, job in view.changes:
            if change is Change.LEFT and job.id not in view.jobs:
                self.overdue.discard(job.id)
        moved = self.inner.learn(view)
        self.may_reserve = self.inner.may_reserve
        return moved

    def recall(self, services: Iterable[float]) -> None:
        self.inner.recall(services)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return self.inner.look_again_at(now, jobs_waiting)

    def _goes_first(self, job: Job) -> bool:
        """A job that was overdue by right and has lost that right, as when quotas change, is ranked like the others."""
        return job.id in self.overdue and self.is_owed(job)


# ---- A bound on bypass for orders without keys: which jobs are overdue, and when the next one will be.


class OverdueJobs:
    """A job that has waited `limit_s` without a break is overdue, and stays so to its end."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = checked_limit_s(limit_s)
        self._overdue: set[str] = set()

    def overdue(self, view: View) -> list[Job]:
        """By arrival."""
        for job in view.jobs.values():
            if job.is_waiting and view.now + EPSILON_S >= job.since_s + self.limit_s:
                self._overdue.add(job.id)
        self._overdue &= view.jobs.keys()
        jobs = [view.jobs[job_id] for job_id in self._overdue]
        return sorted((job for job in jobs if job.state is not State.HELD), key=lambda job: job.tie)

    def blocker(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Job | None:
        """The overdue job that waits and that this one must not pass."""
        waiting = [view.jobs[job_id] for job_id in self._overdue if job_id in view.jobs]
        waiting = [other for other in waiting if other.is_waiting and could_hold(other)]
        first = min(waiting, key=lambda other: other.tie, default=job)
        return None if first is job or (job in waiting and job.tie < first.tie) else first

    def wake_at(self, view: View, running: Collection[str]) -> float:
        """When the next one becomes overdue, with these jobs running from now on."""
        evicted = any(job_id not in running for job_id in view.running)
        ends = [job.since_s + self.limit_s for job in view.jobs.values() if job.is_waiting and job.id not in running]
        to_come = [end for end in ends if end > view.now + EPSILON_S]
        return min([*to_come, view.now + self.limit_s if evicted else math.inf])


def checked_limit_s(limit_s: float) -> float:
    if not limit_s > 0:
        raise InputError(f"bypass_limit_s {limit_s:g} is not above 0", "leave it out to switch it off")
    return limit_s
