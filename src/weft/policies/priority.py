"""Priorities: which of its own jobs a tenant wants first. The order between tenants stays as the policy has it.

A policy's line is a sequence of turns, each of them some tenant's. Who of the tenant has the turn is for its priorities
to say: of its jobs that are in the line, the one of the highest priority, and of equals the one that the policy ranks
first. So a tenant that sets priorities gets the very turns that it would get without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from weft.core.job import Job
from weft.policies.stages import Key


class Turns:
    """Who has each turn of a line. Jobs of tenants that have set no priorities have their own."""

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
        """Who has the turn that the policy has given to this job."""
        queue = self._queues.get(job.tenant)
        return job if queue is None else next(queue, job)


def by_priority(line: Iterable[Job], rank: Callable[[Job], Key]) -> list[Job]:
    """A whole line, with the turns of each tenant given to its jobs by their priorities."""
    jobs = list(line)
    turns = Turns(jobs, rank)
    return [turns.of(job) for job in jobs]
