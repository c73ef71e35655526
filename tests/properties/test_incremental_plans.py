"""The planner that keeps indexes makes the very plan of the one that looks at everything each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from property_helpers import IDEAL, INCREMENTAL, REAL, Twin, Variant, label, run_watched, steady, workloads

from weft.core.values import Cluster
from weft.sim.trace import TraceJob

Workload = tuple[Cluster, list[TraceJob]]


@pytest.mark.parametrize("world", [IDEAL, REAL], ids=lambda world: world.name)
@pytest.mark.parametrize("variant", INCREMENTAL, ids=label)
@given(workload=workloads())
@steady(9)
def test_incremental_and_plain_planners_agree_at_every_decision(
    world: object, variant: Variant, workload: Workload
) -> None:
    cluster, jobs = workload
    run_watched(jobs, cluster, Twin(variant), world)
