from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from command import Weft

from weft.cli.main import weft as command
from weft.cli.render.simulation import SimulationNotes
from weft.sim.request import Misfit

KEYS = [
    "policy", "parameters", "jobs", "mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s", "mean_queue_s",
    "makespan_s", "utilisation", "preemptions", "events", "wall_s", "p99_queue_s", "mean_rho", "p99_rho", "jain",
    "heeds_classes", "mean_first_steps_s", "guaranteed_slowdown", "trace", "cluster", "device_count", "seed", "bins",
    "classes",
]  # fmt: skip


def runs_of(text: str) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(text)["runs"]
    return runs


def without_wall_s(path: str) -> str:
    return re.sub(r'"wall_s": [^,]*,', "", Path(path).read_text())


def test_a_newcomer_needs_only_the_word_sample(weft: Weft) -> None:
    result = weft("simulate", "sample")
    assert result.exit_code == 0
    assert result.stdout.startswith("sample: 200 jobs on 4x4 (16 devices), world default, seed 0\n")
    assert "fifo" in result.stdout
    assert "tiresias-l" in result.stdout
    assert result.stderr == ""


def test_json_on_standard_output_is_all_there_is_and_the_table_goes_to_stderr(weft: Weft) -> None:
    result = weft("simulate", "few.csv", "--cluster", "2x2", "--json", "-", "--seed", "7")
    runs = runs_of(result.stdout)
    assert [run["policy"] for run in runs] == ["fifo", "tiresias-l", "weft"]
    assert list(runs[0]) == KEYS
    assert (runs[0]["jobs"], runs[0]["cluster"], runs[0]["device_count"], runs[0]["seed"]) == (3, "2x2", 4, 7)
    assert "Completion time" in result.stderr


def test_a_run_carries_every_parameter_of_its_policy_and_world(weft: Weft) -> None:
    result = weft("simulate", "few.csv", "--cluster", "2x2", "--json", "-", "--policy", "las:quantum_s=60")
    parameters = runs_of(result.stdout)[0]["parameters"]
    assert parameters["quantum_s"] == 60.0
    assert parameters["pack_limit"] == 0.2
    assert parameters["bypass_limit_s"] is None
    assert parameters["world.name"] == "default"
    assert parameters["world.preemption_s"] == 30.0


def test_policies_may_be_given_with_commas_and_in_several_options(weft: Weft) -> None:
    words = ["--policy", "fifo,srsf", "--policy", "backfill", "--json", "-"]
    result = weft("simulate", "few.csv", "--cluster", "2x2", *words)
    assert [run["policy"] for run in runs_of(result.stdout)] == ["fifo", "srsf", "backfill"]


def test_the_first_jobs_by_arrival_are_enough_if_asked(weft: Weft) -> None:
    result = weft("simulate", "few.csv", "--cluster", "2x2", "--jobs", "2", "--json", "-")
    assert {run["jobs"] for run in runs_of(result.stdout)} == {2}


def test_every_output_is_written(weft: Weft) -> None:
    outputs = ["--json", "runs.json", "--csv", "jobs.csv", "--report", "runs.html"]
    result = weft("simulate", "few.csv", "--cluster", "2x2", "--policy", "fifo,srsf", *outputs)
    assert result.exit_code == 0
    assert len(runs_of(Path("runs.json").read_text())) == 2
    assert len(Path("jobs.csv").read_text().splitlines()) == 1 + 2 * 3
    assert "<title>few on 2x2</title>" in Path("runs.html").read_text()
    assert result.stderr == "wrote runs.json\nwrote jobs.csv\nwrote runs.html\n"


def test_columns_that_mean_nothing_are_named_in_one_line(weft: Weft) -> None:
    Path("more.csv").write_text("arrival,duration,gang,Colour,priority\n0,5,1,red,7\n")
    result = weft("simulate", "more.csv", "--cluster", "1x4", "--policy", "fifo")
    assert result.stderr == "note: columns ignored: Colour, priority\n"
    assert result.stdout.startswith("more: 1 job on 1x4 (4 devices), ")


def test_the_same_seed_gives_the_same_bytes_however_many_workers_there_are(weft: Weft) -> None:
    words = ["many.csv", "--cluster", "4x4", "--policy", "tiresias-l,fifo,mine.py:ByName", "--seed", "3"]
    for workers, name in (("1", "a"), ("1", "b"), ("2", "c"), ("3", "d")):
        outputs = ["--json", f"{name}.json", "--csv", f"{name}.csv"]
        assert weft("simulate", *words, "--workers", workers, *outputs).exit_code == 0
    for other in "bcd":
        assert without_wall_s(f"{other}.json") == without_wall_s("a.json")
        assert Path(f"{other}.csv").read_bytes() == Path("a.csv").read_bytes()


def test_another_seed_draws_other_skews(weft: Weft) -> None:
    words = ["many.csv", "--cluster", "8x2", "--policy", "backfill"]
    weft("simulate", *words, "--seed", "1", "--csv", "one.csv")
    weft("simulate", *words, "--seed", "2", "--csv", "two.csv")
    assert Path("one.csv").read_text() != Path("two.csv").read_text()


def test_rows_that_are_left_out_are_said_in_one_line(weft: Weft) -> None:
    rows = "a,v,1,0,5\nb,v,0,1,5\nc,v,0,2,5\n"
    Path("helios.csv").write_text(f"job_id,vc,gpu_num,submit_time,duration\n{rows}")
    result = weft("simulate", "helios.csv", "--cluster", "1x4", "--policy", "fifo")
    assert result.stderr == "note: 2 rows left out (needs no GPU: 2)\n"


def test_skipped_jobs_are_named_by_their_reason_a_few_of_many(capsys: pytest.CaptureFixture[str]) -> None:
    large = [Misfit(f"{i}", 4, "is a gang of 4", "", i) for i in range(10)]
    SimulationNotes().skipped([*large, Misfit("z", 9, "is a gang of 9", "", 10)], 20)
    assert capsys.readouterr().err == (
        "note: 10 jobs are skipped (0, 1, 2, 3, 4, 5, 6, 7 and 2 more): each is a gang of 4\n"
        "note: job z is skipped: it is a gang of 9\n"
        "note: every policy gets the other 9 of 20 jobs\n"
    )


@pytest.mark.parametrize("words", [["--help"], ["simulate", "--help"], ["policies"], []])
def test_help_is_there_for_the_asking(weft: Weft, words: list[str]) -> None:
    result = weft(*words)
    assert result.exit_code == 0
    assert "simulate" in result.stdout or "tiresias-l" in result.stdout


def test_the_list_of_policies_tells_each_parameter_the_way_it_is_typed(weft: Weft) -> None:
    text = " ".join(weft("policies").stdout.split())
    assert "parameters: thresholds=3250, promote_knob=none, pack_limit=0.2, bypass_limit_s=none" in text
    assert "Strict arrival order" in text
    assert "promote_knob A job that has waited this many times as long as it ran" in text


def test_one_policy_is_explained_with_its_parameters(weft: Weft) -> None:
    text = weft("policies", "las").stdout
    assert "quantum_s=600\n      Seconds after" in text
    assert "fifo" not in text
    assert max(map(len, weft("policies").stdout.splitlines())) <= 80
    assert "did you mean las?" in weft("policies", "lass").stderr


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("simulate s", ["sample"]),
        ("simulate m", []),
        ("simulate sample --world i", ["ideal"]),
        ("simulate sample --world ", ["ideal", "default", "few.csv", "many.csv", "mine.py"]),
        ("simulate sample --format ph", ["philly", "philly-json"]),
        ("simulate sample --policy fifo,sr", ["fifo,srtf", "fifo,srsf"]),
        ("policies ti", ["tiresias-l", "tiresias-g"]),
    ],
)
def test_a_shell_is_offered_the_words_that_weft_knows(words: str, offered: list[str]) -> None:
    *before, incomplete = words.split(" ")
    items = ShellComplete(command, {}, "weft", "_WEFT_COMPLETE").get_completions(before, incomplete)
    assert [item.value for item in items if item.type == "plain"] == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_printed_for_a_shell(weft: Weft, shell: str) -> None:
    assert "_WEFT_COMPLETE" in weft("completion", shell).stdout
