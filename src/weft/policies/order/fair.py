"""Max-min over tenants by attained service: the tenant that has had least picks next."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.view import View
from weft.policies.base import Key, QueueOrder
from weft.policies.order.tenant_queues import TenantQueues, Tie, in_turn
from weft.policies.plan.full_scan import FullScan
from weft.policies.plan.node_groups import devices_by_type, type_of


@dataclass
class FairTenants(QueueOrder):
    """Tenants pick in turn, the one with the least attained service first, its oldest job first.

    A pick counts at once as one quantum of service on its devices, so that within one decision the devices are
    spread over the tenants instead of all going to the one that is furthest behind. Running jobs are picked like
    waiting ones, and those not picked lose their devices to those that were. Looked at anew after every quantum while
    jobs wait.
    """

    quantum_s: float
    queues: TenantQueues = field(default_factory=TenantQueues, init=False, repr=False)
    picks: list[Job] = field(default_factory=list, init=False, repr=False)

    rule = "the tenant that has had the least device-time goes first"
    preempts = True
    heeds_priorities = True

    def __post_init__(self) -> None:
        if not self.quantum_s > 0:
            raise InputError(f"quantum_s {self.quantum_s:g} is not above 0", "the default is 600")

    def prepare(self, view: View) -> None:
        self.queues.update(view)
        self.picks = self._pick(view) if view.jobs_waiting else []

    def line(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> Iterator[Job]:
        """The picks; then, for devices that are left over, the jobs that run there, and those that wait."""
        yield from self.picks
        picked = {job.id for job in self.picks}
        yield from (job for job in view.running.values() if job.id not in picked)
        yield from (job for job in view.jobs.values() if job.is_waiting and job.id not in picked)

    def rank(self, view: View, job: Job) -> Key:
        return (view.tenants.attained(job.tenant, view.now), job.tie)

    def eviction_line(self, view: View) -> list[Job]:
        """In the order of the picks; those not picked at all go first."""
        picked = {job.id: job for job in self.picks if job.is_running}
        return [*picked.values(), *(job for job in view.running.values() if job.id not in picked)]

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        return False  # every running job was picked before a job that waits

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        return view.now + self.quantum_s if jobs_waiting else math.inf

    def _pick(self, view: View) -> list[Job]:
        """Jobs in the order they are picked, until the devices, as far as counts tell, are gone."""
        left = devices_by_type(view)
        queues = {tenant: in_turn(queue.values(), view) for tenant, queue in self.queues.by_tenant.items()}
        heap = [
            (view.tenants.attained(tenant, view.now), *turn)
            for tenant, queue in queues.items()
            if (turn := _next_fitting(queue, left)) is not None
        ]
        heapify(heap)
        picks = []
        while heap:
            attained, _, job = heap[0]
            kind = type_of(job, view) if job.is_running else _kind_for(job, left)
            if kind is not None and left[kind] >= job.gang_size:
                picks.append(job)
                left[kind] -= job.gang_size
                attained += job.gang_size * self.quantum_s
            successor = _next_fitting(queues[job.tenant], left)
            if successor is None:
                heappop(heap)
            else:
                heapreplace(heap, (attained, *successor))
        return picks


def _kind_for(job: Job, left: dict[str, int]) -> str | None:
    return next((kind for kind, count in left.items() if count >= job.gang_size and job.spec.allows(kind)), None)


def _next_fitting(queue: Iterator[tuple[Tie, Job]], left: dict[str, int]) -> tuple[Tie, Job] | None:
    most = max(left.values(), default=0)
    return next((turn for turn in queue if turn[1].gang_size <= most), None) if most else None
