"""A bound on bypass around any order by keys: nobody waits for ever behind a stream of luckier jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Reason
from weft.core.sharing import Note
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.core.words import span
from weft.policies.bypass import checked_limit_s
from weft.policies.stages import Key, KeyedOrder


@dataclass
class Bounded(KeyedOrder):
    """A job that has waited `limit_s` without a break goes before all others, to its end.

    While it does not fit, nobody behind it starts: devices that become free are kept for it, if those that are there
    could ever hold it. Under lasting overload every job becomes overdue and the order degenerates to first come, first
    served.
    """

    inner: KeyedOrder
    limit_s: float
    overdue: set[str] = field(default_factory=set, init=False, repr=False)

    may_block = True

    def __post_init__(self) -> None:
        checked_limit_s(self.limit_s)
        self.rule = f"{self.inner.rule}; but who has waited {span(self.limit_s)} goes before all others"
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
        """Who was overdue by right and has lost that right, as when quotas change, stands where the others do."""
        return job.id in self.overdue and self.is_owed(job)
