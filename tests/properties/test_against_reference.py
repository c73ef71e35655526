"""The simulator against the slow reference, job by job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_helpers import IDEAL, steady

from reference import simulate
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.registry import POLICIES
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, TraceJob

Jobs = list[tuple[float, float, int]]

BOTH_HAVE = ("fifo", "backfill", "srtf", "srsf", "las", "tiresias-l")


def jobs_of(times_s: st.SearchStrategy[float], durations_s: st.SearchStrategy[float]) -> st.SearchStrategy[Jobs]:
    jobs = st.lists(st.tuples(times_s, durations_s, st.integers(1, 5)), min_size=1, max_size=25)
    return jobs.map(lambda jobs: [(0.0, *jobs[0][1:]), *jobs[1:]])  # a trace begins with its first arrival


QUARTERS = jobs_of(
    st.integers(0, 120).map(lambda quarters: quarters / 4), st.integers(1, 120).map(lambda quarters: quarters / 4)
)
"""These add up without rounding, so that ties are ties in both."""

THIRDS = jobs_of(st.integers(0, 10**6).map(lambda n: n / 30_011), st.integers(1, 10**6).map(lambda n: n / 30_013))
"""Fractions that no sum of a few others meets, so that no tie hangs on rounding."""

PARAMETERS = {
    "las": {"quantum_s": 2.5},
    "tiresias-l": {"thresholds": (6.0, 20.0)},
}


def finish_times(jobs: Jobs, devices: int, name: str) -> list[float]:
    described = [
        TraceJob(JobSpec(str(i), gang_size=gang, declared_steps=duration_s), arrival_s, duration_s)
        for i, (arrival_s, duration_s, gang) in enumerate(jobs)
    ]
    policy = POLICIES[name](**PARAMETERS.get(name, {}))
    simulation = Simulation(Trace.of(described), Cluster((Node("n0", devices),)), policy, IDEAL)
    simulation.run()
    table = simulation.jobs()
    by_id = dict(zip(table.ids, table.finish_s.tolist(), strict=True))
    return [by_id[str(i)] for i in range(len(jobs))]


@pytest.mark.parametrize("name", BOTH_HAVE)
@given(jobs=QUARTERS, devices=st.integers(5, 9))
@steady(80)
def test_finish_times_are_those_of_the_reference(name: str, jobs: Jobs, devices: int) -> None:
    expected = simulate(jobs, devices, name, **PARAMETERS.get(name, {}))
    assert finish_times(jobs, devices, name) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in BOTH_HAVE if name != "las"])  # whose turns make ties of sums
@given(jobs=THIRDS, devices=st.integers(5, 9))
@steady(40)
def test_fractions_do_not_make_them_part(name: str, jobs: Jobs, devices: int) -> None:
    expected = simulate(jobs, devices, name, **PARAMETERS.get(name, {}))
    assert finish_times(jobs, devices, name) == pytest.approx(expected, abs=1e-5)
