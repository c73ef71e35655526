"""The live jobs of each tenant in order of arrival, and priorities within a tenant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.transitions import State
from weft.core.view import View
from weft.policies.base import Key

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
    if not view.has_exceptions:
        return ((job.tie, job) for job in queue)
    jobs = list(queue)
    return zip((job.tie for job in jobs), sorted(jobs, key=lambda job: -job.spec.priority), strict=True)


# ---- Priorities: which of its own jobs a tenant wants first. The order between tenants stays as the policy has it.
#
# A policy's line is a sequence of turns, each of them some tenant's. Which of the tenant's jobs has the turn is for its
# priorities to say: of its jobs that are in the line, the one of the highest priority, and of equals the one that the
# policy ranks first. So a tenant that sets priorities gets the very turns that it would get without.


class PriorityTurns:
    """The job that has each turn of a line. Jobs of tenants that have set no priorities have their own."""

    def __init__(self, in_line: Iterable[Job], rank: Callable[[Job], Key]) -> None:
        """`in_line`: all jobs that may have a turn; `rank`: where the policy ranks each."""
        self._queues: dict[str, Iterator[Job]] = {}
        jobs = list(in_line)
        tenants = {job.tenant for job in jobs if job.spec.priority}
        by_tenant: dict[str, list[Job]] = {tenant: [] for tenant in tenants}
        for job in jobs:
            if job.tenant in tenants:
                by_tenant[job.tenant].append(job)
        for tenant, own in by_tenant.items():
            self._queues[tenant] = iter(sorted(own, key=lambda job: (-job.spec.priority, rank(job))))

    def of(self, job: Job) -> Job:
        """The job that has the turn that the policy has given to this job."""
        queue = self._queues.get(job.tenant)
        return job if queue is None else next(queue, job)


def by_priority(line: Iterable[Job], rank: Callable[[Job], Key]) -> list[Job]:
    """A whole line, with the turns of each tenant given to its jobs by their priorities."""
    jobs = list(line)
    turns = PriorityTurns(jobs, rank)
    return [turns.of(job) for job in jobs]
