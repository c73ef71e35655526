"""What the incremental planner tells from its line is what a look at the whole queue tells."""

from __future__ import annotations

from hypothesis import given
from property_helpers import INCREMENTAL, REAL, SHARED, Variant, build, in_worlds, run_watched, steady, workloads

from weft.core.policy_base import SortedPositions
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster
from weft.core.view import View
from weft.policies.order.keyed import KeyedOrder
from weft.policies.plan.queue_position import QueuePositions
from weft.sim.trace import TraceJob

Workload = tuple[Cluster, list[TraceJob]]


@in_worlds(INCREMENTAL, (REAL, SHARED))
@given(workload=workloads())
@steady(3)
def test_positions_from_the_line_are_those_of_the_sorted_queue(
    world: object, variant: Variant, workload: Workload
) -> None:
    cluster, jobs = workload
    policy = build(variant)
    told = []

    def look(scheduler: Scheduler, now: float) -> None:
        ledger = scheduler.ledger
        line = scheduler.waiting_line(now)
        wanted, found = SortedPositions(line), scheduler.positions(now)
        told.append(isinstance(found, QueuePositions))
        for job in ledger.jobs.values():
            assert found.of(job) == wanted.of(job), f"{job} at {now} s"
        for count in (0, 1, 3, len(line) + 1):
            assert found.front(count) == wanted.front(count), f"at {now} s"
        if isinstance(found, QueuePositions):
            _check_heads(policy.order, found, View(ledger, (), now))

    run_watched(jobs, cluster, policy, world, watch=look)
    assert any(told), "the line never told"


def _check_heads(order: object, positions: QueuePositions, view: View) -> None:
    """A job waits behind the same other job, whether all are looked at or only the first of each shape."""
    assert isinstance(order, KeyedOrder)
    for job in view.jobs.values():
        if job.is_waiting:
            whole = order.why_not(view, job, lambda other: True)
            assert order.why_behind(view, job, lambda other: True, positions.heads()) == whole
