"""Tenants in turn: by attained service (max-min), or by devices held (YARN's capacity scheduler)."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.base import Key, QueueOrder
from weft.policies.order.tenant_queues import TenantQueues, Tie, in_turn
from weft.policies.plan.free_devices import devices_by_type, type_of
from weft.policies.plan.full_scan import FullScan


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


@dataclass
class CapacityQueues(QueueOrder):
    """A FIFO queue per tenant, all of equal capacity; the tenant that holds the least goes first.

    The head of a queue that does not fit blocks its own queue and no other, as long as the devices that are there
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
