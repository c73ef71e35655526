"""Turns within a server: a slice moves nobody, nobody starves, and a switch costs no more than its share."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_helpers import REAL, SHARED, WORLDS, Log, decisions, run_watched, steady, workloads

from weft.core.commands import Preempt, Seat, Start, WakeAt
from weft.core.events import Event, Submitted, Woken
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, Node
from weft.core.view import View
from weft.policies.order.gandiva import COST_SHARE, EARLY
from weft.policies.plan.server_planner import ServerPlanner
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.sim.trace import TraceJob
from weft.sim.world import World

Workload = tuple[Cluster, list[TraceJob]]


LONG_S = 500.0


def gandiva(quantum_s: float = 2.5) -> Policy:
    return POLICIES["gandiva"](quantum_s=quantum_s, resume_s=0.03, migration_s=0.125)


def moves(log: Log) -> list[tuple[float, Start, object]]:
    """Starts on other devices than a job had, and those that it had; a packed job is moved by its packing."""
    last: dict[str, object] = {}
    found = []
    for now, commands in log:
        for command in commands:
            if isinstance(command, Start):
                if last.get(command.job_id, command.allocation) != command.allocation:
                    found.append((now, command, last[command.job_id]))
                last[command.job_id] = command.allocation
            elif isinstance(command, Seat):
                last[command.job_id] = command.seating.allocation
    return found


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(workload=workloads())
@steady(25)
def test_a_slice_never_moves_a_job(world: World, workload: Workload) -> None:
    cluster, jobs = workload
    _, log = decisions(jobs, cluster, gandiva(), world)
    assert [each for each in moves(log) if each[1].reason.code is not Code.MIGRATED] == []


@given(workload=workloads())
@steady(15)
def test_nobody_starves(workload: Workload) -> None:
    """While some wait for their turn, each of them computes again before every other has had several quanta."""
    cluster, jobs = workload
    endless = [replace(job, duration_s=1e6, spec=replace(job.spec, declared_steps=1e6, min_run_s=0.0)) for job in jobs]
    stage = Scheduler(REAL.shape(cluster), gandiva(1.0))
    ran_until = starved_s(stage, endless, until_s=LONG_S)
    most_s = 14.0 * (1 + len(jobs))  # two quanta of a job that was moved, for each
    assert {name: at_s for name, at_s in ran_until.items() if at_s < LONG_S - most_s} == {}


def starved_s(scheduler: Scheduler, jobs: list[TraceJob], until_s: float) -> dict[str, float]:
    """When each was last seen to hold devices."""
    coming, wake_at, seen = (
        sorted(jobs, key=lambda job: job.arrival_s),
        math.inf,
        {job.spec.id: -math.inf for job in jobs},
    )
    now = 0.0
    while now < until_s:
        now = min(coming[0].arrival_s if coming else math.inf, wake_at, until_s)
        events: list[Event] = [Woken()] if wake_at <= now else []
        wake_at = math.inf if wake_at <= now else wake_at
        while coming and coming[0].arrival_s <= now:
            events.append(Submitted(REAL.describe(coming.pop(0), 0)))
        for command in scheduler.handle(events, now):
            wake_at = command.time_s if isinstance(command, WakeAt) else wake_at
        seen |= dict.fromkeys(scheduler.ledger.running, now)
    return seen


@given(st.sampled_from([0.5, 2.0, 10.0]), st.integers(3, 9), st.integers(1, 3))
@steady(25)
def test_a_switch_costs_no_more_than_its_share_of_a_quantum(pause_s: float, count: int, devices: int) -> None:
    """Jobs that all come at once: apart from their first turns, each lease lasts so long that its resume is 2 %."""
    world = replace(SHARED, pause_s=pause_s, preemption_s=30.0, measure_s=1.0, interference=SHARED.interference)
    jobs = [TraceJob(JobSpec(f"j{i}", declared_steps=4000.0, may_share=False), 0.0, 4000.0) for i in range(count)]
    policy = POLICIES["gandiva"](quantum_s=5.0, quantum_steps=1e9, resume_s=pause_s)
    _, log = decisions(jobs, Cluster((Node("n0", devices),)), policy, world)
    began: dict[str, float] = {}
    lasted = []
    for now, commands in log:
        for command in commands:
            if isinstance(command, Start):
                began[command.job_id] = now
            elif isinstance(command, Preempt) and command.generation > 1:
                lasted.append(now - began[command.job_id])
    worth_s = pause_s / COST_SHARE
    assert count <= devices or lasted
    assert [each for each in lasted if each < worth_s * (1 - EARLY) - 1e-6] == []


class Twin:
    """Looks at servers where something has changed, and at all of them, and insists that both plans are one."""

    def __init__(self) -> None:
        self._fast, self._plain = gandiva(), gandiva()
        planner = self._plain.planner
        assert isinstance(planner, ServerPlanner)
        planner.looks_at_all = True
        self.seat, self.learns_from_measures = self._fast.seat, True

    def decide(self, view: View) -> Plan:
        fast, plain = self._fast.decide(view), self._plain.decide(view)
        where = f"at {view.now} s: {fast}, of all servers {plain}"
        assert {one.job_id: one for one in fast.grants} == {one.job_id: one for one in plain.grants}, where
        assert {one.job_id for one in fast.evictions} == {one.job_id for one in plain.evictions}, where
        assert fast.wake_at <= plain.wake_at + 1e-6, where  # it may look where nothing has come of what was due
        return fast

    def explain(self, view: View, job: Job) -> Reason:
        return self._fast.explain(view, job)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@given(workload=workloads())
@steady(9)
def test_a_server_where_nothing_has_changed_needs_no_look(world: World, workload: Workload) -> None:
    cluster, jobs = workload
    run_watched(jobs, cluster, Twin(), world)
