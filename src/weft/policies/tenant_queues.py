"""The live jobs of each tenant in order of arrival, kept from decision to decision."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import State
from weft.core.view import View

Tie = tuple[float, int]


class TenantQueues:
    """Waiting and running jobs. Fed with what has changed; built from all jobs at first and when nodes change."""

    def __init__(self) -> None:
        self.by_tenant: dict[str, dict[str, Job]] = {}
        self._version = 0

    def update(self, view: View) -> None:
        if self._version != view.version:
            self._version = view.version
            self.by_tenant = {}
            self._add(job for job in view.jobs.values() if job.state is not State.HELD)
            return
        for change, job in view.changes:
            if change is Change.QUEUED:
                self._add((job,))
            elif change is Change.LEFT:
                self._drop(job)

    def _add(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            queue = self.by_tenant.setdefault(job.tenant, {})
            is_late = bool(queue) and next(reversed(queue.values())).tie > job.tie
            queue[job.id] = job
            if is_late:  # released from hold after younger jobs came
                self.by_tenant[job.tenant] = dict(sorted(queue.items(), key=lambda item: item[1].tie))

    def _drop(self, job: Job) -> None:
        queue = self.by_tenant.get(job.tenant, {})
        queue.pop(job.id, None)  # one that is over after being held has left before
        if not queue and job.tenant in self.by_tenant:
            del self.by_tenant[job.tenant]


def in_turn(queue: Iterable[Job], view: View) -> Iterator[tuple[Tie, Job]]:
    """A tenant's turns: each has the place of one of its jobs by arrival, and is had by one of them by priority."""
    if not view.ledger.exceptions:
        return ((job.tie, job) for job in queue)
    jobs = list(queue)
    return zip((job.tie for job in jobs), sorted(jobs, key=lambda job: -job.spec.priority), strict=True)
