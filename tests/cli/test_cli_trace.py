"""`weft trace`: figures on standard output, all else on stderr."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from command import Weft, command_line

from weft.cli.main import weft as command
from weft.sim.generate import LIKES

SMALL = ["trace", "generate", "--like", "philly", "--jobs", "50", "--devices", "16"]


def test_a_trace_is_told_at_a_glance(weft: Weft) -> None:
    result = weft("trace", "inspect", "few.csv")
    assert result.exit_code == 0
    assert result.stderr == ""
    first, load, arrivals, *_ = result.stdout.splitlines()
    assert first == "few: 3 jobs over 20 s"
    assert load == "Offered load: 4.0 devices busy on the average"
    assert arrivals == "Arrivals: 3.0 an hour on the average, 3 at most"
    words = " ".join(result.stdout.split())
    assert "p50 50 s 3.3 min" in words
    assert "2 1 33.3%" in words
    assert "Tenant" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_figures_for_machines_are_all_there_is_on_standard_output(weft: Weft) -> None:
    found = json.loads(weft("trace", "inspect", "few.csv", "--json", "--jobs", "2").stdout)
    assert list(found) == [
        "trace", "jobs", "span_s", "busy_devices", "duration_s", "device_s", "arrivals_per_hour",
        "gangs", "tenants", "models",
    ]  # fmt: skip
    assert (found["jobs"], found["span_s"], found["busy_devices"]) == (2, 10.0, 2.0)
    assert found["gangs"] == {"2": 1, "4": 1}


def test_many_gang_sizes_are_cut_to_the_frequent_ones(weft: Weft) -> None:
    rows = "".join(f"{i},1,{i % 30 + 1}\n" for i in range(90)) + "99,1,1\n"
    Path("sizes.csv").write_text(f"arrival,duration,gang\n{rows}")
    assert "19 others" in weft("trace", "inspect", "sizes.csv").stdout
    assert len(json.loads(weft("trace", "inspect", "sizes.csv", "--json").stdout)["gangs"]) == 30


def test_names_in_a_trace_cannot_move_the_cursor(weft: Weft) -> None:
    Path("odd.csv").write_text("arrival,duration,gang,tenant\n0,1,1,\x1b[2Ja\n1,1,1,[bold]b\n")
    result = weft("trace", "inspect", "odd.csv")
    assert "\x1b" not in result.stdout
    assert "[bold]b" in result.stdout


def test_rows_that_are_left_out_are_said_on_stderr(weft: Weft) -> None:
    Path("helios.csv").write_text("job_id,vc,gpu_num,submit_time,duration\na,v,1,0,5\nb,v,0,1,5\n")
    result = weft("trace", "inspect", "helios.csv", "--json")
    assert json.loads(result.stdout)["jobs"] == 1
    assert result.stderr == "note: 1 row left out (needs no GPU: 1)\n"


def test_jobs_that_arrive_at_once_offer_no_load(weft: Weft) -> None:
    Path("once.csv").write_text("arrival,duration,gang\n0,1,1\n0,1,1\n")
    assert "Offered load: all jobs arrive at once\n" in weft("trace", "inspect", "once.csv").stdout


def test_a_generated_trace_goes_to_standard_output_and_can_be_simulated(weft: Weft) -> None:
    result = weft(*SMALL, "--tenants", "2")
    assert result.stderr == ""
    Path("made.csv").write_text(result.stdout)
    assert result.stdout.startswith("arrival,duration,gang,tenant\n0.000,")
    run = weft("simulate", "made.csv", "--cluster", "4x4", "--policy", "fifo")
    assert run.exit_code == 0
    assert run.stderr == ""
    assert run.stdout.startswith("made: 50 jobs on 4x4 (16 devices)")


def test_a_file_gets_the_same_bytes_as_standard_output(weft: Weft) -> None:
    result = weft(*SMALL, "--seed", "5", "-o", "made.csv")
    assert (result.stdout, result.stderr) == ("", "wrote made.csv\n")
    assert Path("made.csv").read_text() == weft(*SMALL, "--seed", "5").stdout
    assert Path("made.csv").read_text() != weft(*SMALL, "--seed", "6").stdout


def test_two_processes_generate_the_same_bytes() -> None:
    first, second = (subprocess.run(command_line(*SMALL), capture_output=True, check=True) for _ in range(2))
    assert first.stdout == second.stdout
    assert first.stderr == b""


def test_a_generated_trace_has_the_load_it_was_made_for(weft: Weft) -> None:
    weft("trace", "generate", "--like", "pai", "--load", "0.5", "--devices", "64", "-o", "made.csv")
    jobs = [tuple(map(float, row.split(",")[:3])) for row in Path("made.csv").read_text().splitlines()[1:]]
    span_s = jobs[-1][0]
    assert len(jobs) == 1000
    assert sum(gang * min(duration, span_s - arrival) for arrival, duration, gang in jobs) == pytest.approx(
        32 * span_s, rel=0.001
    )


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["inspect", "gone.csv"], "gone.csv: no such file", "sample"),
        (["inspect", "few.csv", "--jobs", "0"], "the first 0 jobs", "1 or more"),
        (["inspect", "few.csv", "--format", "gravel"], 'unknown form "gravel"', "gavel"),
        (["inspect"], "Missing argument 'FILE'", "weft trace inspect --help"),
        (["look"], "No such command 'look'", "weft trace --help"),
        (["generate", "--like", "phily", "--devices", "8"], 'unknown cluster "phily"', "did you mean philly?"),
        (["generate", "--like", "pai"], "Missing option '--devices'", "weft trace generate --help"),
        (["generate", "--like", "pai", "--devices", "8", "--load", "-1"], "a load of -1", "0.9 means"),
        (["generate", "--like", "philly", "--devices", "9999", "--jobs", "99"], "99 jobs are too few", "or more"),
        (["generate", "--like", "pai", "--devices", "8", "-o", "gone/x.csv"], "cannot write gone/x.csv", "a folder"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_hint(weft: Weft, words: list[str], error: str, hint: str) -> None:
    result = weft("trace", *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    said, told = result.stderr.splitlines()
    assert error in said
    assert hint in told


def test_help_names_every_cluster_and_the_shell_completes_them(weft: Weft) -> None:
    assert "|".join(LIKES) in weft("trace", "generate", "--help").stdout
    items = ShellComplete(command, {}, "weft", "_WEFT_COMPLETE").get_completions(["trace", "generate", "--like"], "p")
    assert [item.value for item in items] == ["philly", "pai"]
