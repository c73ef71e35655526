"""What holds of every policy in every setting, on any cluster and any trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from property_helpers import (
    IDEAL,
    REAL,
    SHARED,
    VARIANTS,
    Variant,
    build,
    check_reasons,
    in_worlds,
    label,
    run_watched,
    steady,
    workloads,
)

from weft.core.commands import Preempt
from weft.core.values import Cluster
from weft.sim.trace import TraceJob
from weft.sim.world import World

Workload = tuple[Cluster, list[TraceJob]]

in_both_worlds = in_worlds(VARIANTS, (REAL, SHARED))
every_policy = pytest.mark.parametrize("variant", VARIANTS, ids=label)


@in_both_worlds
@given(workload=workloads())
@steady(8)
def test_every_job_ends_and_nobody_holds_a_device_twice_or_a_gang_in_part(
    variant: Variant, world: World, workload: Workload
) -> None:
    cluster, jobs = workload
    simulation, _ = run_watched(jobs, cluster, build(variant), world)
    table = simulation.jobs()
    assert np.isfinite(table.finish_s).all()
    assert (table.finish_s - table.arrival_s >= table.alone_s * (1 - 1e-9) - 1e-6).all()
    assert not simulation.scheduler.ledger.jobs
    assert simulation.scheduler.ledger.devices_held == 0


@every_policy
@given(workload=workloads())
@steady(8)
def test_the_device_seconds_charged_are_those_of_the_trace(variant: Variant, workload: Workload) -> None:
    cluster, jobs = workload
    simulation, log = run_watched(jobs, cluster, build(variant), IDEAL)
    table = simulation.jobs()
    charged = float(table.gang_size @ table.run_s)
    assert charged == pytest.approx(sum(job.duration_s * job.spec.gang_size for job in jobs), rel=1e-6)
    preemptions = sum(isinstance(command, Preempt) for _, commands in log for command in commands)
    assert int(table.preemptions.sum()) == preemptions


@in_both_worlds
@given(workload=workloads())
@steady(4)
def test_every_waiting_job_has_a_reason_in_words(variant: Variant, world: World, workload: Workload) -> None:
    cluster, jobs = workload
    run_watched(jobs, cluster, build(variant), world, watch=check_reasons)
