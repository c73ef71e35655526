from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from make_runs import job_table, make_run, synthetic_run

from weft.core.errors import InputError
from weft.sim.api import Results
from weft.sim.results.result_files import JOB_COLUMNS, as_json

RESULTS = Results((synthetic_run("fifo"), synthetic_run("srsf", slowness=0.1)))


def test_results_are_the_runs_in_order() -> None:
    assert [run.policy for run in RESULTS] == ["fifo", "srsf"]
    assert RESULTS[1].policy == "srsf"
    assert len(RESULTS) == 2


def test_a_run_is_found_by_the_text_that_asked_for_it() -> None:
    assert RESULTS["srsf"] is RESULTS[1]
    with pytest.raises(KeyError, match="no run of las; the policies: fifo, srsf"):
        RESULTS["las"]


def test_the_frame_has_one_row_a_policy_and_no_nested_column() -> None:
    frame = RESULTS.to_frame()
    first = as_json(RESULTS.runs)["runs"][0]
    assert list(frame["policy"]) == ["fifo", "srsf"]
    assert set(frame.columns) == set(first) - {"parameters", "bins", "classes"}
    assert frame["mean_jct_s"][0] == first["mean_jct_s"]


def test_the_jobs_frame_has_one_row_per_job_and_policy() -> None:
    frame = RESULTS.jobs_frame()
    assert list(frame.columns) == list(JOB_COLUMNS)
    assert len(frame) == 1_000
    assert frame.groupby("policy")["completion_s"].mean()["fifo"] == pytest.approx(RESULTS.to_frame()["mean_jct_s"][0])


def test_without_pandas_the_hint_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match="pandas") as caught:
        RESULTS.to_frame()
    assert caught.value.hint == "pip install 'weft[sim]'"


def test_json_is_the_text_that_would_be_written() -> None:
    assert json.loads(RESULTS.to_json()) == as_json(RESULTS.runs)


def test_printing_results_shows_the_table_without_colour() -> None:
    text = str(Results((make_run(job_table([0.0], [42.0], [42.0])),)))
    assert "42 s" in text
    assert "quantum_s=60.0" in text
    assert "\x1b" not in text


def test_a_report_can_be_written_in_one_line(tmp_path: Path) -> None:
    RESULTS.report(tmp_path / "report.html")
    assert "<title>sample on 32x8</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")
