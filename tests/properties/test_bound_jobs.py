"""What holds of every policy when jobs declare CPU cores, name devices, begin later or have priorities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_helpers import (
    REAL,
    SHARED,
    VARIANTS,
    Variant,
    build,
    check_reasons,
    decisions,
    in_worlds,
    label,
    run_watched,
    steady,
    trace_jobs,
)

from weft.core.bounds import cpus_left
from weft.core.commands import Seat, Start
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.registry import POLICIES
from weft.sim.trace import TraceJob
from weft.sim.world import World

Workload = tuple[Cluster, list[TraceJob]]
Change = Callable[[JobSpec, int], JobSpec]

every_policy = pytest.mark.parametrize("variant", VARIANTS, ids=label)
in_both_worlds = in_worlds(VARIANTS, (REAL, SHARED))
CPUS = 4


@st.composite
def bound_workloads(draw: st.DrawFn) -> Workload:
    """Two hosts, one of which is two nodes of different types; some jobs are bound, some begin later."""
    cluster = Cluster(
        (
            Node("a/V100", 2, "V100", cpu_count=CPUS, host="a", device_ids=(0, 2)),
            Node("a/K80", 2, "K80", cpu_count=CPUS, host="a", device_ids=(1, 3)),
            Node("b", 3, "V100", cpu_count=CPUS),
        )
    )
    jobs = [
        replace(job, spec=replace(job.spec, **_bounds(draw(st.integers(0, 11)), job)))
        for job in draw(trace_jobs(cluster, max_size=20))
    ]
    return cluster, jobs


def _bounds(choice: int, job: TraceJob) -> dict[str, object]:
    gang_size = job.spec.gang_size
    match choice:
        case 0 | 1:
            return {"cpus": 1 + choice * 3, "gang_size": 1}
        case 2:
            return {"cpus": min(gang_size, CPUS)}
        case 3:
            return {"device_ids": frozenset({0}), "gang_size": 1, "device_types": frozenset({"V100"})}
        case 4:
            return {"device_ids": frozenset({0, 2}), "gang_size": 2, "cpus": 2, "device_types": frozenset({"V100"})}
        case 5:
            return {"device_ids": frozenset({3}), "gang_size": 1, "device_types": frozenset({"K80"})}
        case 6:
            return {"begin_s": job.arrival_s + 7.5}
        case 7:
            return {"begin_s": 20.0, "cpus": 2, "gang_size": 1}
        case 8 | 9:
            return {"priority": choice * 10 - 85}
        case _:
            return {}


@in_both_worlds
@given(workload=bound_workloads())
@steady(8)
def test_bound_jobs_all_end_and_no_core_is_used_twice(variant: Variant, world: World, workload: Workload) -> None:
    """The ledger's own invariants, after each decision: CPU cores, and devices that are named."""
    cluster, jobs = workload
    simulation, _ = run_watched(jobs, cluster, build(variant), world)
    assert np.isfinite(simulation.jobs().finish_s).all()
    assert simulation.scheduler.ledger.exceptions == 0


@every_policy
@given(workload=bound_workloads())
@steady(4)
def test_every_bound_job_that_waits_has_a_reason(variant: Variant, workload: Workload) -> None:
    cluster, jobs = workload
    run_watched(jobs, cluster, build(variant), SHARED, watch=check_reasons)


@in_both_worlds
@given(workload=bound_workloads())
@steady(4)
def test_nobody_starts_before_it_is_to_begin(variant: Variant, world: World, workload: Workload) -> None:
    cluster, jobs = workload
    begins_s = {job.spec.id: job.spec.begin_s for job in jobs}
    _, log = decisions(jobs, cluster, build(variant), world)
    for now, commands in log:
        for command in commands:
            if isinstance(command, Start | Seat):
                assert now >= (begins_s[command.job_id] or 0.0) - 1e-6


@every_policy
@given(workload=bound_workloads())
@steady(4)
def test_a_host_never_lacks_cores(variant: Variant, workload: Workload) -> None:
    cluster, jobs = workload

    def watch(scheduler: Scheduler, now: float) -> None:
        assert all(0 <= left <= CPUS for left in cpus_left(scheduler.ledger).values())

    run_watched(jobs, cluster, build(variant), SHARED, watch=watch)


@pytest.mark.parametrize("name", POLICIES)
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-3, 3), st.integers(1, 3), st.integers(1, 20)),
        min_size=2,
        max_size=20,
    )
)
@steady(10)
def test_a_priority_never_changes_whose_turn_it_is(name: str, jobs: list[tuple[str, int, int, int]]) -> None:
    """The line of tenants is the same, whatever priorities they set; each has its own jobs by priority."""
    plain, prioritised = (
        [
            JobSpec(f"j{i}", gang, tenant=tenant, declared_steps=float(steps), priority=priority * by)
            for i, (tenant, priority, gang, steps) in enumerate(jobs)
        ]
        for by in (0, 1)
    )
    without, with_them = (_line(name, specs) for specs in (plain, prioritised))
    assert [spec.tenant for spec in without] == [spec.tenant for spec in with_them]
    for tenant in "abc":
        own = [spec.priority for spec in with_them if spec.tenant == tenant]
        assert own == sorted(own, reverse=True)


@pytest.mark.parametrize("name", POLICIES)
@given(
    jobs=st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(-2, 2), st.integers(0, 30)),
        min_size=2,
        max_size=16,
    )
)
@steady(10)
def test_tenants_get_devices_at_the_same_times_whatever_their_priorities(
    name: str, jobs: list[tuple[str, int, int]]
) -> None:
    """For jobs that are alike, a priority says which of them starts, and never that one of another tenant does not."""
    starts = []
    for by in (0, 1):
        traced = [
            TraceJob(JobSpec(f"j{i:02}", tenant=tenant, declared_steps=8.0, priority=priority * by), 0.0, 8.0)
            for i, (tenant, priority, _) in enumerate(jobs)
        ]
        cluster = Cluster((Node("n", 2),))
        simulation, log = decisions(traced, cluster, POLICIES[name](), replace(REAL, preemption_s=0.0))
        tenants = {job.spec.id: job.spec.tenant for job in traced}
        starts.append(
            [
                (now, sorted(tenants[each.job_id] for each in commands if isinstance(each, Start)))
                for now, commands in log
                if any(isinstance(each, Start) for each in commands)
            ][:1]
        )
        assert np.isfinite(simulation.jobs().finish_s).all()
    assert starts[0] == starts[1]


def _line(name: str, specs: list[JobSpec]) -> list[JobSpec]:
    from weft.core.events import Submitted

    scheduler = Scheduler(Cluster((Node("n", 4),)), POLICIES[name]())
    for at, spec in enumerate(specs):
        scheduler.record([Submitted(spec)], float(at))
    return [job.spec for job in scheduler.waiting_line(float(len(specs)))]
