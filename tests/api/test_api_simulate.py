from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import weft
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.values import Cluster, Node
from weft.policies.base import Key
from weft.policies.registry import tiresias_l
from weft.sim.api import SOONER_HERE_JOBS, Asked
from weft.sim.trace import read_trace
from weft.sim.world import load_world


def job(name: str, arrival_s: float, duration_s: float, gang_size: int = 1) -> weft.TraceJob:
    return weft.TraceJob(weft.JobSpec(name, gang_size, tenant=name[0]), arrival_s, duration_s)


JOBS = [job("ada", 0.0, 100.0, 2), job("bo", 1.0, 10.0), job("cy", 2.0, 5.0)]
MANY = [job(f"{'abc'[i % 3]}{i}", float(i), float(i % 90 + 1), 1 + i % 4) for i in range(SOONER_HERE_JOBS)]


class Lifo(weft.KeyedOrder):
    """Last come, first served."""

    def key(self, job: Job, now: float) -> Key:
        return (-job.arrival_s, job.tie)


def test_jobs_in_memory_become_a_data_frame() -> None:
    results = weft.simulate(JOBS, cluster="1x2", policy=["fifo", "tiresias-l:thresholds=20"], world="ideal")
    assert results["fifo"] is results[0]
    assert results["fifo"].trace == "jobs"
    frame = results.to_frame()
    assert list(frame["policy"]) == ["fifo", "tiresias-l:thresholds=20"]
    assert list(frame["jobs"]) == [3, 3]
    assert frame["mean_jct_s"][0] == pytest.approx((100 + 109 + 103) / 3)
    jobs = results.jobs_frame()
    assert list(jobs["id"]) == ["ada", "bo", "cy"] * 2
    assert list(jobs["tenant"]) == ["a", "b", "c"] * 2


def test_a_policy_may_be_a_text_a_function_a_class_an_object_or_several_of_these() -> None:
    ready = weft.Policy(Lifo())
    with_threshold = partial(tiresias_l, thresholds=(9.0,))
    asked: list[Asked] = ["fifo,backfill", Lifo, with_threshold, lambda: weft.Policy(Lifo()), ready]
    runs = weft.simulate(JOBS, cluster="1x2", policy=asked, world="ideal")
    assert [run.policy for run in runs] == ["fifo", "backfill", "Lifo", "tiresias_l", "<lambda>", "Policy"]
    assert runs[3].parameters["thresholds"] == [9.0]
    lifo = [runs[at].jobs.finish_s.tolist() for at in (2, 4, 5)]
    assert lifo[0] == lifo[1] == lifo[2]


def test_a_policy_object_can_be_simulated_again() -> None:
    ready = weft.Policy(Lifo())
    first, second = (weft.simulate(JOBS, cluster="1x2", policy=ready) for _ in range(2))
    assert first[0].jobs.finish_s.tolist() == second[0].jobs.finish_s.tolist()


def test_trace_cluster_and_world_may_be_objects(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,duration,gang\n0,100,2\n1,10,1\n2,5,1\n")
    cluster = Cluster((Node("a", 2, "V100"), Node("b", 2, "V100"), Node("c", 4)))
    traces = (str(path), path, [path], read_trace(path))
    results = [weft.simulate(each, cluster=cluster, world=load_world("ideal")) for each in traces]
    assert len({each[0].jobs.finish_s.tobytes() for each in results}) == 1
    assert (results[0][0].cluster, results[0][0].device_count) == ("2x2:V100,1x4", 8)
    assert len(weft.simulate(JOBS, cluster=cluster, jobs=2)[0].jobs.ids) == 2


def test_workers_change_nothing_but_the_time_it_takes() -> None:
    alone, together = (
        weft.simulate(MANY, cluster="2x4", policy=["srsf", tiresias_l, Lifo], workers=workers) for workers in (1, 2)
    )
    assert alone.jobs_frame().equals(together.jobs_frame())
    timelines = zip(alone, together, strict=True)
    assert all((one.timeline.time_s == two.timeline.time_s).all() for one, two in timelines)


def test_what_cannot_be_sent_to_a_worker_is_refused() -> None:
    with pytest.raises(InputError, match="<lambda> cannot be sent to another process"):
        weft.simulate(MANY, cluster="2x4", policy=["fifo", lambda: weft.Policy(Lifo())], workers=2)


@pytest.mark.parametrize("jobs", [[], [JOBS[0], "few.csv"], [1, 2]])
def test_something_else_is_no_trace(jobs: list[object]) -> None:
    with pytest.raises(InputError):
        weft.simulate(jobs, cluster="1x2")  # type: ignore[arg-type]


def test_no_policy_is_refused_and_so_is_what_is_none() -> None:
    for policy in ([], [3], ""):
        with pytest.raises(InputError):
            weft.simulate(JOBS, cluster="1x2", policy=policy)  # type: ignore[arg-type]


def test_importing_weft_loads_no_numpy_and_still_offers_everything() -> None:
    script = "import sys, weft; print('numpy' in sys.modules, [hasattr(weft, name) for name in weft.__all__])"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == f"False {[True] * len(weft.__all__)}\n"
    assert dir(weft) == sorted([*weft.__all__, "__version__"])
    with pytest.raises(AttributeError):
        weft.unheard_of  # noqa: B018
