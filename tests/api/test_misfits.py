"""Jobs that can never run where they are simulated: refused by default, or left out of every run alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.core.errors import InputError
from weft.core.values import JobClass


def job(name: str, gang_size: int = 1, job_class: JobClass = JobClass.AUTO) -> weft.TraceJob:
    return weft.TraceJob(weft.JobSpec(name, gang_size, job_class=job_class), float(len(name)), 10.0)


def test_a_job_that_cannot_fit_is_refused_unless_it_may_be_skipped() -> None:
    jobs = [job("a"), job("bb", 4), job("ccc", 2)]
    with pytest.raises(InputError, match="job bb is a gang of 4, and the cluster has only 2 devices"):
        weft.simulate(jobs, cluster="1x2", policy="fifo")
    results = weft.simulate(jobs, cluster="1x2", policy="fifo,weft", skip_misfits=True)
    assert [list(run.jobs.ids) for run in results] == [["a", "ccc"]] * 2
    (skipped,) = results.skipped
    assert (skipped.id, skipped.gang_size) == ("bb", 4)
    why = "is a gang of 4, and the cluster has only 2 devices"
    assert json.loads(results.to_json())["skipped"] == [{"id": "bb", "gang_size": 4, "why": why}]


def test_a_guaranteed_job_beyond_its_quota_is_a_misfit_too() -> None:
    jobs = [job("a"), job("bb", 2, JobClass.GUARANTEED)]
    results = weft.simulate(jobs, cluster="1x2", quotas={"default": 1}, skip_misfits=True)
    assert [each.id for each in results.skipped] == ["bb"]
    assert list(results[0].jobs.ids) == ["a"]


def test_if_no_job_is_left_that_is_an_error() -> None:
    with pytest.raises(InputError, match="no job of jobs can run here: job a is a gang of 3"):
        weft.simulate([job("a", 3), job("bb", 4)], cluster="1x2", skip_misfits=True)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 6))
def test_what_fits_is_simulated_and_only_that_for_every_policy(gangs: list[int], devices: int) -> None:
    jobs = [weft.TraceJob(weft.JobSpec(str(i), gang), float(i), 5.0) for i, gang in enumerate(gangs)]
    fitting = [str(i) for i, gang in enumerate(gangs) if gang <= devices]
    if not fitting:
        return
    results = weft.simulate(jobs, cluster=f"1x{devices}", policy="fifo,tiresias-l,weft", skip_misfits=True)
    assert [list(run.jobs.ids) for run in results] == [fitting] * 3
    assert sorted([*fitting, *(each.id for each in results.skipped)]) == sorted(map(str, range(len(gangs))))


def test_the_report_names_what_was_skipped(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    weft.simulate([job("a"), job("bb", 4)], cluster="1x2", policy="fifo", skip_misfits=True).report(path)
    assert "<li>Job bb is in no run: it is a gang of 4, and the cluster has only 2 devices.</li>" in path.read_text()
