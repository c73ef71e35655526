from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from make_runs import job_table, make_run, synthetic_run

from weft.core.errors import InputError
from weft.sim.results.result_files import as_json, check_writable, json_text, write_csv, write_json, write_text
from weft.sim.results.summary import numbered, short_labels

RUNS = [synthetic_run("fifo", restart_s=30.0, depth=None), synthetic_run("srsf", slowness=0.1)]
FIRST_KEYS = [
    "policy", "parameters", "jobs", "mean_jct_s", "median_jct_s", "p95_jct_s", "p99_jct_s",
    "mean_queue_s", "makespan_s", "utilisation", "preemptions", "events", "wall_s",
]  # fmt: skip


def test_each_run_has_the_promised_keys_first() -> None:
    for run in as_json(RUNS)["runs"]:
        assert list(run)[: len(FIRST_KEYS)] == FIRST_KEYS
        more = {"p99_queue_s", "mean_rho", "p99_rho", "jain", "mean_first_steps_s", "guaranteed_slowdown"}
        assert set(run) == {
            *FIRST_KEYS, *more, "heeds_classes", "trace", "cluster", "device_count", "seed", "bins", "classes",
        }  # fmt: skip


def test_the_same_runs_give_the_same_bytes_however_the_parameters_are_ordered() -> None:
    jobs = job_table([0.0], [5.0], [5.0])
    one = make_run(jobs, parameters={"quantum_s": 60.0, "depth": 3})
    other = make_run(jobs, parameters={"depth": 3, "quantum_s": 60.0})
    assert json_text([one]) == json_text([other])


def test_the_file_is_strict_json(tmp_path: Path) -> None:
    write_json(RUNS, tmp_path / "runs.json")

    def refuse(word: str) -> None:
        raise AssertionError(word)

    read = json.loads((tmp_path / "runs.json").read_text(), parse_constant=refuse)
    assert read == as_json(RUNS)


def test_a_value_that_json_cannot_say_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json([make_run(RUNS[0].jobs, wall_s=float("nan"))], tmp_path / "runs.json")
    assert not list(tmp_path.iterdir())


def test_a_dash_is_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    write_json(RUNS, "-")
    assert json.loads(capsys.readouterr().out) == as_json(RUNS)


def test_the_csv_has_one_row_per_job_and_policy(tmp_path: Path) -> None:
    jobs = job_table([0.0, 10.0], [100.0, 210.0], [100.0, 50.0], gang_size=[2, 4], tenants=["ada", "bo, inc"])
    write_csv([make_run(jobs), make_run(jobs, "srsf")], tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["policy"], row["id"]) for row in rows] == [
        ("fifo", "job-0"),
        ("fifo", "job-1"),
        ("srsf", "job-0"),
        ("srsf", "job-1"),
    ]
    assert rows[1] == {
        "policy": "fifo", "id": "job-1", "tenant": "bo, inc", "gang_size": "4", "arrival_s": "10.0",
        "first_start_s": "10.0", "finish_s": "210.0", "completion_s": "200.0", "queue_s": "150.0",
        "run_s": "50.0", "alone_s": "50.0", "preemptions": "0", "class": "auto",
    }  # fmt: skip


def test_runs_of_one_policy_are_numbered_so_that_they_can_be_told_apart() -> None:
    assert numbered(["fifo", "srsf", "fifo"]) == ["fifo #1", "srsf", "fifo #2"]


def test_a_short_label_has_neither_file_nor_parameters() -> None:
    asked = ["las:quantum_s=60", "las", "my/small_first.py:small_first:patience_s=600", "<lambda>"]
    assert short_labels(asked) == ["las #1", "las #2", "small_first", "<lambda>"]


def test_machines_are_given_the_policy_in_full(tmp_path: Path) -> None:
    run = make_run(RUNS[0].jobs, "mine.py:Mine:key=1")
    write_csv([run], tmp_path / "jobs.csv")
    assert "mine.py:Mine:key=1,job-0," in (tmp_path / "jobs.csv").read_text()
    assert as_json([run])["runs"][0]["policy"] == "mine.py:Mine:key=1"


def test_writing_replaces_the_old_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "runs.json"
    path.write_text("old")
    write_text(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_through_a_link_keeps_the_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_and_not_replaced() -> None:
    check_writable(os.devnull)
    write_text(os.devnull, "gone")
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("act", [check_writable, lambda path: write_json(RUNS, path)])
@pytest.mark.parametrize("place", ["missing/runs.json", "file/runs.json", "."])
def test_an_unwritable_path_is_the_persons_to_mend(tmp_path: Path, place: str, act: Callable[[Path], None]) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match="cannot write") as caught:
        act(tmp_path / place)
    assert caught.value.hint


def test_checking_a_path_leaves_nothing_behind(tmp_path: Path) -> None:
    check_writable(tmp_path / "runs.json")
    check_writable("-")
    assert not list(tmp_path.iterdir())
