"""The planner that keeps indexes makes the very plan of the one that looks at everything each time."""

from __future__ import annotations

from hypothesis import given
from property_helpers import INCREMENTAL, REAL, WORLDS, Twin, Variant, in_worlds, run_watched, steady, workloads

from weft.core.values import Cluster, JobSpec, Node
from weft.sim.trace import TraceJob

Workload = tuple[Cluster, list[TraceJob]]


@in_worlds(INCREMENTAL, WORLDS)
@given(workload=workloads())
@steady(9)
def test_incremental_and_plain_planners_agree_at_every_decision(
    world: object, variant: Variant, workload: Workload
) -> None:
    cluster, jobs = workload
    run_watched(jobs, cluster, Twin(variant), world)


def test_devices_that_a_newcomer_leaves_over_go_to_the_next_behind_it() -> None:
    """At 34.428 s a promoted job evicts a gang of 8 for its 3 devices, while others have news further down the line."""
    rows = [
        ("a", 0.0, 32.0, 2, 0.0),
        ("b", 0.0, 23.0, 8, 0.0),
        ("c", 27.0, 1.0, 8, 1.5),
        ("d", 27.0, 22.0, 1, 0.0),
        ("e", 27.282, 5.0, 3, 0.0),
    ]
    jobs = [
        TraceJob(JobSpec(job_id, gang_size, declared_steps=duration_s, skew=skew), arrival_s, duration_s)
        for job_id, arrival_s, duration_s, gang_size, skew in rows
    ]
    variant = ("tiresias-l", {"thresholds": (4.0, 15.0, 40.0), "promote_knob": 0.75})
    run_watched(jobs, Cluster((Node("n0", 3), Node("n1", 4), Node("n2", 2))), Twin(variant), REAL)
