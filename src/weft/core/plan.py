"""A policy's plan: a proposal until `check` has compared it with the ledger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.core.bounds import cpus_left, cpus_on, host_of
from weft.core.errors import PlanRejectedError
from weft.core.reasons import Reason
from weft.core.value import value
from weft.core.values import EPSILON_S

if TYPE_CHECKING:
    from weft.core.job import Job
    from weft.core.ledger import Ledger

Placement = tuple[tuple[int, int], ...]
"""The chosen nodes: (node index, number of devices). The ledger picks the devices."""


@value
class Grant:
    """Give a waiting job devices."""

    job_id: str
    placement: Placement
    reason: Reason
    lane: int = 0
    """The lane it is to be in, so that guests can take turns with it; 0 for none."""
    base: int = 0
    weight: int = 1


@value
class Eviction:
    """Take a running job's devices away; it waits again."""

    job_id: str
    reason: Reason


@value
class Plan:
    """Evictions come first, so a job may be evicted and granted other devices in one plan."""

    grants: Sequence[Grant] = ()
    evictions: Sequence[Eviction] = ()
    wake_at: float = math.inf


def check(plan: Plan, ledger: Ledger, now: float) -> None:
    """Check a plan; the only place that refuses one. Raises PlanRejectedError before anything is changed."""
    if not plan.wake_at > now:
        raise PlanRejectedError(f"the policy asks to be woken at {plan.wake_at:g} s, which is not after {now:g} s")
    if not plan.grants and not plan.evictions:
        return
    jobs, free_counts = ledger.jobs, ledger.free_counts
    free: dict[int, int] = {}  # of the nodes the plan touches
    evicted = set()
    for eviction in plan.evictions:
        job = jobs.get(eviction.job_id)
        if job is None or not job.is_running or job.id in evicted:
            raise PlanRejectedError(f"{eviction.job_id} is evicted but does not run")
        if now < job.since_s + job.spec.min_run_s - EPSILON_S:
            raise PlanRejectedError(f"{job.id} is evicted before its minimum run time of {job.spec.min_run_s:g} s")
        evicted.add(job.id)
        for node, mask in job.allocation:
            free[node] = free.get(node, free_counts[node]) + mask.bit_count()
    granted = set()
    for grant in plan.grants:
        job = jobs.get(grant.job_id)
        if job is None or job.id in granted or not (job.is_waiting or job.id in evicted):
            raise PlanRejectedError(f"{grant.job_id} is granted devices but does not wait for any")
        granted.add(job.id)
        _check_gang(job, grant.placement, ledger)
        for node, count in grant.placement:
            free[node] = free.get(node, free_counts[node]) - count
            if free[node] < 0:
                raise PlanRejectedError(f"{job.id} is granted more devices of {ledger.nodes[node].name} than are free")
    if ledger.exceptions:
        _check_ids(plan, ledger)
        _check_cpus(plan, ledger)


def _check_ids(plan: Plan, ledger: Ledger) -> None:
    """Devices that are named by a job are free once all evictions are made, and named by no other."""
    free = dict(enumerate(ledger.free_masks))
    for eviction in plan.evictions:
        for node, mask in ledger.jobs[eviction.job_id].allocation:
            free[node] |= mask
    for grant in plan.grants:
        job = ledger.jobs[grant.job_id]
        for node, _ in grant.placement if job.spec.device_ids else ():
            mask = ledger.nodes[node].mask_of(job.spec.device_ids)
            if not mask or mask & ~free[node]:
                raise PlanRejectedError(f"{job.id} names devices of {ledger.nodes[node].name} that are not free")
            free[node] &= ~mask


def _check_cpus(plan: Plan, ledger: Ledger) -> None:
    """Guests are not counted: they are evicted when needed."""
    left = cpus_left(ledger, with_guests=False)
    leaving = [(ledger.jobs[each.job_id], ledger.jobs[each.job_id].allocation) for each in plan.evictions]
    for job, allocation in leaving:
        for node, mask in allocation:
            host = host_of(ledger.nodes[node])
            left[host] = left.get(host, 0) + cpus_on(job.spec, mask.bit_count())
    known = {host_of(node) for node in ledger.nodes if node.cpu_count is not None}
    for grant in plan.grants:
        job = ledger.jobs[grant.job_id]
        for node, count in grant.placement if job.spec.cpus else ():
            host = host_of(ledger.nodes[node])
            left[host] = left.get(host, 0) - cpus_on(job.spec, count)
            if host in known and left[host] < 0:
                raise PlanRejectedError(f"{job.id} is granted more CPU cores of {host} than are free")


def _check_gang(job: Job, placement: Placement, ledger: Ledger) -> None:
    """A gang is placed whole, on present nodes, on devices of one allowed type."""
    kind, placed = None, 0
    for node, count in placement:
        is_there = 0 <= node < len(ledger.nodes) and ledger.is_present[node]
        node_kind = ledger.nodes[node].device_type if is_there else None
        if count < 1 or node_kind is None or (kind is not None and kind != node_kind):
            raise PlanRejectedError(f"{job.id} is placed as {placement}: on a missing node or on mixed device types")
        kind, placed = node_kind, placed + count
    if placed != job.gang_size or (len(placement) > 1 and len(dict(placement)) != len(placement)):
        raise PlanRejectedError(f"{job.id} needs its gang of {job.gang_size} whole, but is placed as {placement}")
    if kind is None or not job.spec.allows(kind):
        raise PlanRejectedError(f"{job.id} may not run on type {kind}")
