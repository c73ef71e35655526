"""What cannot be done as written is refused at once: exit code 2, an error, a hint, and no traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import Weft

FEW = ["few.csv", "--cluster", "2x2"]
TYPED = "arrival,duration,gang,types\n0,10,1,V100\n5,10,2,K80\n"


def refusal(weft: Weft, *words: str) -> tuple[str, str]:
    """The error and the hint."""
    result = weft("simulate", *words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    error, *hint = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert all(line.startswith("hint: ") for line in hint)
    return error.removeprefix("error: "), "".join(hint).removeprefix("hint: ")


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        ([], "no trace is named", "weft simulate sample"),
        (["few.csv"], "no cluster is given", "--cluster 64x8"),
        (["gone.csv", "--cluster", "2x2"], "gone.csv: no such file", "sample"),
        ([*FEW, "--policy", "fifi"], 'unknown policy "fifi"', "did you mean fifo? the policies: fifo, "),
        ([*FEW, "--policy", "las:quantum=5"], "las has no parameter quantum", "did you mean quantum_s?"),
        ([*FEW, "--policy", "fifo:speed=5"], "fifo has no parameter speed", "it has none"),
        ([*FEW, "--policy", "las:quantum_s=long"], 'las: quantum_s="long" is not a number', "quantum_s=600"),
        ([*FEW, "--policy", "las:quantum_s=nan"], 'las: quantum_s="nan" is not a number', "quantum_s=600"),
        ([*FEW, "--policy", "las:quantum_s=0.5"], "no job makes progress", "a longer quantum_s"),
        ([*FEW, "--policy", "fair:quantum_s=0"], "quantum_s 0 is not above 0", "600"),
        ([*FEW, "--policy", "las:quantum_s"], '"quantum_s" in the policy', "key=value"),
        ([*FEW, "--policy", "fifo,"], 'the policies "fifo," have a comma too many', "one comma"),
        ([*FEW, "--policy", ""], "no policy is named", "fifo"),
        ([*FEW, "--policy", "tiresias-g:history=gone.csv"], '="gone.csv" is not none or numbers', "history=none"),
        ([*FEW, "--policy", "tiresias-g:history=gone.csv"], "no such file exists", "history=none"),
        ([*FEW, "--policy", "tiresias-l:thresholds="], "thresholds is empty, it takes numbers", "thresholds=3250"),
        ([*FEW, "--policy", "mine.py:KeyedOrder"], "mine.py:KeyedOrder: KeyedOrder has no key", "write key"),
        ([*FEW, "--policy", "tiresias-l:thresholds=9/3"], "thresholds 9/3 are not ascending", "thresholds="),
        ([*FEW, "--policy", "gone.py:Mine"], "gone.py: no such file", "path/to/file.py:Name"),
        ([*FEW, "--policy", "mine.py"], "does not say which policy", "mine.py:Name"),
        ([*FEW, "--policy", "mine.py:ByNam"], 'mine.py has no "ByNam"', "did you mean ByName?"),
        ([*FEW, "--policy", "mine.py:wrong"], "mine.py:wrong is no policy", "a KeyedOrder"),
        ([*FEW, "--policy", "mine.py:Handmade"], "needs the parameter share", "mine.py:Handmade:share=VALUE"),
        ([*FEW, "--world", "flat"], 'there is no world "flat", and no such file', "ideal, default"),
        ([*FEW, "--world", "idael"], 'there is no world "idael"', "did you mean ideal?"),
        ([*FEW, "--world", "."], "the world file . cannot be read", "TOML"),
        ([*FEW, "--format", "xml"], 'unknown form "xml"', "plain"),
        ([*FEW, "--jobs", "0"], "jobs is 0", "1 or more"),
        ([*FEW, "--jobs", "all"], "'all' is not a valid integer", "--help"),
        ([*FEW, "--seed", "-1"], "seed is -1", "0 or more"),
        ([*FEW, "--workers", "0"], "workers is 0", "1 or more"),
        ([*FEW, "--json", "gone/runs.json"], "cannot write gone/runs.json", "folder"),
        ([*FEW, "--report", "runs.pdf"], "runs.pdf does not end in .html", "--report runs.html"),
        ([*FEW, "--report", "gone/runs.html"], "cannot write gone/runs.html", "folder"),
        ([*FEW, "--json", "-", "--csv", "-"], "several outputs are to go to -", "its own"),
        (["few.csv", "--cluster", "64"], '"64" in the cluster "64" is no group of nodes', "64x8"),
        (["few.csv", "--cluster", "2x2,"], '"" in the cluster "2x2," is no group', "64x8"),
        (["few.csv", "--cluster", "0x8"], '"0x8" in the cluster "0x8" has no devices', "64x8"),
        (["few.csv", "--cluster", "9999999x8"], "has 9,999,999 nodes", "up to 100,000"),
        (["few.csv", "--cluster", "2x2:TPU"], "the speed of a TPU is not known", "[speed] TPU = 1.0"),
        (["few.csv", "--cluster", "3x1"], "few.csv, line 3: job job-2 is a gang of 4", "largest gang"),
        (["few.csv", "--cluster", "3x1,2x1:V100"], "only 3 devices of a type it may use", "largest gang"),
        ([*FEW, "--unheard"], "No such option", "weft simulate --help"),
    ],
)
def test_a_wrong_word_is_named_and_the_way_out_too(weft: Weft, words: list[str], error: str, hint: str) -> None:
    said, advice = refusal(weft, *words)
    assert error in said
    assert hint in advice


def test_a_row_that_cannot_be_read_is_named_by_file_line_and_column(weft: Weft) -> None:
    Path("bad.csv").write_text("arrival,duration,gang\n0,1,1\n5,ten,1\n")
    error, _ = refusal(weft, "bad.csv", "--cluster", "2x2")
    assert "bad.csv, line 3, column duration" in error
    assert '"ten"' in error


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        ("preemption_s = -1", "preemption_s = -1 is wrong", "a number of seconds ≥ 0"),
        ('preemption_s = "x"', "preemption_s = 'x' is wrong", "a number of seconds ≥ 0"),
        ("preemption_s = nan", "preemption_s = nan is wrong", "a number of seconds ≥ 0"),
        ("preemption_s = true", "preemption_s = True is wrong", "a number of seconds ≥ 0"),
        ("counts_only = 1", "counts_only = 1 is wrong", "true or false"),
        ("preemption = 1", "unknown key preemption", "did you mean preemption_s?"),
        ("speed.V100 = nan", "[speed] V100 = nan is not a number above 0", "V100 = 1.0"),
        ("skew.vgg = -1", "[skew] vgg = -1 is not a number ≥ 0", "vgg = 1.0"),
        ('unknown.skew = ["x"]', "unknown = {'skew': ['x']} is wrong", "a list of numbers"),
    ],
)
def test_a_wrong_value_of_a_world_is_told_from_a_wrong_key(weft: Weft, line: str, error: str, hint: str) -> None:
    Path("my.toml").write_text(line)
    said, advice = refusal(weft, *FEW, "--world", "my.toml")
    assert said == f"my.toml: {error}"
    assert hint in advice


def test_the_sample_is_called_sample(weft: Weft) -> None:
    error, _ = refusal(weft, "sample", "--cluster", "1x1")
    assert error.startswith("sample, line 2: job ")


def test_a_job_for_a_type_that_the_cluster_has_not_is_named(weft: Weft) -> None:
    Path("typed.csv").write_text(TYPED)
    error, hint = refusal(weft, "typed.csv", "--cluster", "4x4:V100")
    assert error == "typed.csv, line 3: job job-2 runs only on K80, and the cluster has V100"
    assert "4x4:K80" in hint


def test_a_gang_has_to_fit_on_devices_of_a_type_it_may_use(weft: Weft) -> None:
    Path("typed.csv").write_text(TYPED)
    error, _ = refusal(weft, "typed.csv", "--cluster", "4x4:V100,1x1:K80")
    assert "job job-2 is a gang of 2, and the cluster has only 1 device of a type it may use" in error
    assert weft("simulate", "typed.csv", "--cluster", "4x4:V100,1x2:K80").exit_code == 0


def test_a_quota_is_of_a_tenant_that_has_jobs(weft: Weft) -> None:
    Path("two.csv").write_text("arrival,duration,gang,tenant\n0,10,1,vision\n0,10,1,text\n")
    error, hint = refusal(weft, "two.csv", "--cluster", "1x2", "--quota", "vison=1")
    assert error == "vison has a quota, and no job in this trace"
    assert hint == "did you mean vision? tenants: text, vision"
    done = weft("simulate", "two.csv", "--cluster", "1x2", "--quota", "vision=1")
    assert done.exit_code == 0
    assert "quota.vision=1" in done.stdout


def test_a_guaranteed_gang_that_no_quota_holds_is_refused_before_anything_runs(weft: Weft) -> None:
    Path("two.csv").write_text("arrival,duration,gang,tenant,class\n0,9,1,vision,auto\n0,9,2,text,guaranteed\n")
    error, hint = refusal(weft, "two.csv", "--cluster", "1x2", "--quota", "vision=1")
    assert error.startswith("two.csv, line 3: job ")
    assert error.endswith("is guaranteed and would wait for ever: it is a gang of 2, and the quota of text is 0")
    assert hint == "--quota text=2 or more, or another class"
    assert weft("simulate", "two.csv", "--cluster", "1x2", "--quota", "text=2").exit_code == 0


def test_where_only_counts_matter_types_do_not(weft: Weft) -> None:
    Path("typed.csv").write_text(TYPED)
    assert weft("simulate", "typed.csv", "--cluster", "1x1:TPU,1x1", "--world", "ideal").exit_code == 0


def test_a_file_of_numbers_is_refused_by_the_line(weft: Weft) -> None:
    Path("times.csv").write_text("duration\n12\nmany\n")
    error, _ = refusal(weft, *FEW, "--policy", "tiresias-g:history=times.csv")
    assert error == 'times.csv, line 3: "many" is not a number'


def test_a_slip_in_ones_own_policy_is_named_by_the_line(weft: Weft) -> None:
    Path("slip.py").write_text("def mine(:\n    pass\n")
    error, _ = refusal(weft, *FEW, "--policy", "slip.py:mine")
    assert "slip.py, line 1: invalid syntax" in error


def test_outputs_are_tried_before_anything_is_read(weft: Weft) -> None:
    error, _ = refusal(weft, "gone.csv", "--cluster", "2x2", "--csv", "gone/jobs.csv")
    assert "cannot write" in error


def test_a_policy_that_leaves_jobs_waiting_is_an_error_but_not_of_the_input(weft: Weft) -> None:
    Path("idle.py").write_text(
        "from weft.core.plan import Plan\n"
        "from weft.core.reasons import Code, Reason\n"
        "class Idle:\n"
        "    def decide(self, view): return Plan()\n"
        "    def explain(self, view, job): return Reason(Code.HELD)\n"
    )
    for workers in ("1", "2"):
        words = ["many.csv", "--cluster", "4x4", "--policy", "idle.py:Idle,fifo", "--workers", workers]
        result = weft("simulate", *words)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: the policy leaves 2,500 jobs waiting for ever")


def test_a_bug_keeps_its_traceback(weft: Weft) -> None:
    Path("bug.py").write_text("def mine():\n    return 1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        weft("simulate", *FEW, "--policy", "bug.py:mine")
