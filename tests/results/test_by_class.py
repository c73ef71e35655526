"""Results by class, wherever results are shown: some policies let opportunistic jobs yield and others do not."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from make_runs import job_table, make_run
from rich.console import Console

import weft
from weft.core.values import JobClass
from weft.policies import POLICIES
from weft.policies.loader import policies_asked
from weft.sim.api import Results
from weft.sim.results.report import write_report
from weft.sim.results.report.rows import what_happened
from weft.sim.results.result_files import as_json, write_csv
from weft.sim.results.summary import ClassSummary, PolicyRun, summarise
from weft.sim.results.text_table import render_table

CLASSES = ["guaranteed", "guaranteed", "opportunistic"]
GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "simulate.md").read_text(encoding="utf-8")


def run(policy: str, *finish_s: float, heeds_classes: bool = False) -> PolicyRun:
    table = job_table([0.0] * 3, finish_s, [10.0] * 3, classes=CLASSES)
    return make_run(table, policy, heeds_classes=heeds_classes)


def heeding_and_not() -> list[PolicyRun]:
    """The one that heeds classes is better for the guaranteed jobs, and worse over all."""
    return [run("peers", 40.0, 50.0, 10.0), run("classed", 20.0, 20.0, 300.0, heeds_classes=True)]


def text_of(runs: list[PolicyRun]) -> str:
    text = io.StringIO()
    render_table(runs, Console(file=text, width=80))
    return text.getvalue()


def test_a_class_has_its_own_mean_and_tail() -> None:
    summary = summarise(run("classed", 20.0, 40.0, 300.0))
    assert list(summary.classes) == ["guaranteed", "opportunistic"]
    assert summary.classes["guaranteed"] == ClassSummary(2, 30.0, 30.0, 39.0, 39.8, 20.0)
    assert summary.classes["opportunistic"].mean_jct_s == 300.0
    assert summary.all_jobs.mean_jct_s == 120.0


def test_the_table_compares_policies_within_each_class_and_says_what_is_compared() -> None:
    text = text_of(heeding_and_not())
    said = " ".join(text.split())
    assert "classed heeds classes: opportunistic jobs yield; peers treats all jobs as peers." in said
    assert "Compare policies within a class, not over all jobs." in said
    lines = text.splitlines()
    mean = lines.index("Mean completion time by class")
    assert lines[mean + 1].split() == ["Guaranteed", "Opportunistic", "All"]
    assert lines[mean + 2].split() == ["Policy", "2", "jobs", "1", "job", "3", "jobs"]
    assert lines[mean + 4].split() == ["peers", "45", "s", "10", "s", "33", "s"]
    assert lines[mean + 5].split() == ["classed", "20", "s", "5.0", "min", "1.9", "min"]
    assert "p95 completion time by class" in lines


def test_where_no_policy_heeds_classes_there_is_no_table_by_class() -> None:
    assert "by class" not in text_of([run("peers", 40.0, 50.0, 10.0), run("others", 20.0, 20.0, 300.0)])


def test_the_sentences_name_the_best_policy_of_each_class() -> None:
    runs = heeding_and_not()
    sentences = what_happened([summarise(each) for each in runs], ["peers", "classed"])
    best = "had the shortest mean completion time"
    assert f"2 guaranteed jobs: classed {best}, 20 s; peers took 2.2 times as long (45 s)." in sentences
    assert f"1 opportunistic job: peers {best}, 10 s; classed took 30.0 times as long (5.0 min)." in sentences
    assert sentences[0].startswith("classed heeds classes")


def test_the_page_has_the_tables_the_bars_and_the_sentences(tmp_path: Path) -> None:
    write_report(heeding_and_not(), tmp_path / "report.html", "Classes")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '<div class="figure" id="classes"' in html
    assert "<h2>p95 completion time by class</h2>" in html
    assert "<li>2 guaranteed jobs: classed had the shortest mean completion time" in html


def test_json_csv_and_frames_have_the_classes(tmp_path: Path) -> None:
    runs = heeding_and_not()
    told = as_json(runs)["runs"]
    assert [each["heeds_classes"] for each in told] == [False, True]
    assert told[1]["classes"]["guaranteed"]["mean_jct_s"] == 20.0
    write_csv(runs, tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert [row["class"] for row in csv.DictReader(file)] == CLASSES * 2
    results = Results(tuple(runs))
    assert list(results.jobs_frame()["class"]) == CLASSES * 2
    frame = results.classes_frame().set_index(["policy", "class"])
    assert frame.loc[("classed", "opportunistic"), "mean_jct_s"] == 300.0
    assert list(frame.loc["classed"].index) == ["guaranteed", "opportunistic", "all"]


def test_a_simulation_knows_which_of_its_policies_heed_classes() -> None:
    jobs = [
        weft.TraceJob(weft.JobSpec("a", job_class=JobClass.OPPORTUNISTIC), 0.0, 100.0),
        weft.TraceJob(weft.JobSpec("b"), 1.0, 100.0),
    ]
    results = weft.simulate(jobs, cluster="1x1", policy="fifo,weft", world="ideal")
    assert [each.heeds_classes for each in results] == [False, True]
    assert [list(each.jobs.classes) for each in results] == [["opportunistic", "auto"]] * 2
    assert "weft heeds classes: opportunistic jobs yield" in str(results)
    finish_s = results["weft"].jobs.finish_s.tolist()
    assert finish_s[1] < finish_s[0]  # without a quota, too


@pytest.mark.parametrize("policy", [name for name in POLICIES if not policies_asked(name)[0].heeds_classes])
def test_a_policy_that_heeds_no_classes_decides_the_same_without_them(policy: str) -> None:
    """Also where it bounds how long a job may be passed by."""
    bounded = "bypass_limit_s" in policies_asked(policy)[0].parameters
    asked = f"{policy}:bypass_limit_s=900" if bounded else policy
    finish_s = []
    for classes in ([JobClass.AUTO], [JobClass.OPPORTUNISTIC, JobClass.GUARANTEED, JobClass.AUTO]):
        jobs = [
            weft.TraceJob(
                weft.JobSpec(f"{i:02}", 1 + i % 3, job_class=classes[i % len(classes)]), 60.0 * i, 300.0 + 97 * (i % 11)
            )
            for i in range(40)
        ]
        finish_s.append(weft.simulate(jobs, cluster="1x4", policy=asked)[0].jobs.finish_s.tolist())
    assert finish_s[0] == finish_s[1]


def test_the_guide_says_which_policies_heed_classes() -> None:
    heeding = [f"`{name}`" for name in POLICIES if policies_asked(name)[0].heeds_classes]
    (line,) = [line for line in GUIDE.splitlines() if line.startswith("Opportunistic jobs yield under ")]
    assert line.startswith(f"Opportunistic jobs yield under {' and '.join(heeding)}")
