"""Published and hand-worked examples, through the real simulator."""

from __future__ import annotations

import pytest
from policy_helpers import FIXTURES, PLAIN, by_id, cluster, job, run

from weft.core.values import JobSpec
from weft.policies.registry import POLICIES
from weft.sim.results.summary import JobTable
from weft.sim.trace import TraceJob, read_trace
from weft.sim.world import World

THREE_JOBS = [job("J1", 0, 2, 2), job("J2", 0, 8, 1), job("J3", 0, 6, 2)]
"""Tiresias's example: two devices, all jobs at once."""

TWO_DEVICES = cluster((1, 2, "any"))
FOUR_GPUS = cluster((4, 1, "gpu"))
GPUS_AND_CPUS = cluster((4, 1, "gpu"), (8, 1, "cpu"))


def test_srsf_runs_the_three_jobs_by_remaining_service() -> None:
    finish_s = by_id(run(THREE_JOBS, TWO_DEVICES, POLICIES["srsf"]()), "finish_s")
    assert finish_s == {"J1": 2, "J2": 10, "J3": 16}


def test_las_lets_the_three_jobs_take_turns() -> None:
    finish_s = by_id(run(THREE_JOBS, TWO_DEVICES, POLICIES["las"](quantum_s=1.0)), "finish_s")
    assert finish_s == {"J1": 5, "J2": 14, "J3": 16}


def test_a_queue_policy_demotes_at_the_threshold() -> None:
    # Gang 2 attains 8 at 4 s; the other takes over until 12, when both are demoted and first start rules.
    jobs = [job("a", 0, 6, 2), job("b", 1, 9, 1)]
    finish_s = by_id(run(jobs, TWO_DEVICES, POLICIES["tiresias-l"](thresholds=(8.0,))), "finish_s")
    assert finish_s == {"a": 14, "b": 15}


def test_gittins_prefers_the_job_that_is_most_likely_to_end_soon() -> None:
    # Samples say: whoever has had 4 ends at 5 for sure; a newcomer lasts 100 as likely as not. LAS would switch.
    jobs = [job("old", 0, 5), job("new", 4.5, 5)]
    history = (5.0, 5.0, 100.0, 100.0)
    parameters = {"thresholds": (50.0,)}
    table = run(jobs, cluster((1, 1, "any")), POLICIES["tiresias-g"](history=history, **parameters))
    assert by_id(table, "finish_s") == {"old": 5, "new": 10}


@pytest.mark.parametrize(("name", "mean_s"), [("fifo", 4035.95), ("srtf", 3278.25), ("srsf", 3278.25)])
def test_the_forty_jobs_on_gpus_only(name: str, mean_s: float) -> None:
    table = run(read_trace(FIXTURES / "allox-40.csv"), FOUR_GPUS, POLICIES[name](), PLAIN)
    assert (table.finish_s - table.arrival_s).mean() == pytest.approx(mean_s, abs=0.005)


def test_allox_matches_the_forty_jobs_to_gpus_and_cpus() -> None:
    table = run(read_trace(FIXTURES / "allox-40.csv"), GPUS_AND_CPUS, POLICIES["allox"](alpha=1.0), PLAIN)
    assert (table.finish_s - table.arrival_s).mean() == pytest.approx(2013.35, abs=0.005)


ON_X_AND_Y_S = {"J1": (10, 20), "J2": (15, 25), "J3": (20, 100), "J4": (20, 90)}
"""AlloX's example: two devices of each type, all jobs at once."""


def two_of_each_type() -> JobTable:
    jobs = [
        TraceJob(JobSpec(name, declared_steps=1.0, step_rate_hz={"X": 1 / on_x, "Y": 1 / on_y}), 0.0, float(on_x))
        for name, (on_x, on_y) in ON_X_AND_Y_S.items()
    ]
    types = World("types", counts_only=False, preemption_s=0.0)
    return run(jobs, cluster((2, 1, "X"), (2, 1, "Y")), POLICIES["allox"](alpha=1.0), types)


def test_allox_finds_the_least_total_completion_time() -> None:
    assert two_of_each_type().finish_s.sum() == pytest.approx(85)


def test_allox_puts_the_jobs_that_suffer_most_on_the_fast_type() -> None:
    finish_s = by_id(two_of_each_type(), "finish_s")
    assert finish_s == pytest.approx({"J1": 20, "J2": 25, "J3": 20, "J4": 20})
