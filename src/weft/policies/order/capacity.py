"""YARN's capacity scheduler: a FIFO queue per tenant, all of equal capacity; the least used one goes first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.base import Key, QueueOrder
from weft.policies.order.tenant_queues import TenantQueues, in_turn
from weft.policies.plan.full_scan import FullScan


@dataclass
class CapacityQueues(QueueOrder):
    """The head of a queue that does not fit blocks its own queue and no other, as long as the devices that are there
    could hold it. No job is preempted."""

    max_share: float = 1.0
    """The part of all devices that one tenant may hold at once: capacity is elastic up to here."""
    queues: TenantQueues = field(default_factory=TenantQueues, init=False, repr=False)

    rule = "the tenant that holds the fewest devices goes first, its oldest job first"
    heeds_priorities = True

    def __post_init__(self) -> None:
        if not 0 < self.max_share <= 1:
            raise InputError(f"max_share {self.max_share:g} is not a share", "give a number above 0 and up to 1")

    def prepare(self, view: View) -> None:
        self.queues.update(view)

    def line(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> Iterator[Job]:
        heads = {tenant: in_turn(_waiting(queue), view) for tenant, queue in self.queues.by_tenant.items()}
        limit = self._limit(view)
        heap = [
            (view.tenants.devices_held(tenant), *turn)
            for tenant, queue in heads.items()
            if (turn := next(queue, None)) is not None
        ]
        heapify(heap)
        while heap:
            used, _, job = heap[0]
            before = builder.devices_of[job.tenant]
            if used + job.gang_size <= limit:
                yield job
            has_started = builder.devices_of[job.tenant] > before
            successor = next(heads[job.tenant], None) if has_started or not builder.could_hold(job) else None
            if successor is None:
                heappop(heap)
            else:
                heapreplace(heap, (used + job.gang_size * has_started, *successor))

    def rank(self, view: View, job: Job) -> Key:
        return (view.tenants.devices_held(job.tenant), job.tie)

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        queue = _waiting({other.id: other for other in view.jobs.values() if other.tenant == job.tenant})
        turns = (other for _, other in in_turn(queue, view))
        head = next((other for other in turns if other is job or could_hold(other)), job)
        if head is not job:
            return Reason(Code.BEHIND_HEAD, (head.id, head.gang_size))
        limit = self._limit(view)
        if view.tenants.devices_held(job.tenant) + job.gang_size > limit:
            return Reason(Code.TENANT_LIMIT, (job.tenant, limit, job.gang_size))
        return None

    def _limit(self, view: View) -> int:
        return int(self.max_share * view.device_count + 1e-9)


def _waiting(queue: dict[str, Job]) -> Iterator[Job]:
    return (job for job in queue.values() if job.is_waiting)
