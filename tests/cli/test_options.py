"""The options of `weft run` and `weft submit`, typed by a person, with a real daemon and real files."""

from __future__ import annotations

import math
import os
import stat
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from livehome import Live

from waiting import wait_until
from weft.client.job_request import job_request, with_variables
from weft.core.errors import InputError
from weft.system.units import parsed_time

HERE = datetime(2026, 11, 18, 15, 30).timestamp()  # noqa: DTZ001 - local time, as people write it


def ended(live: Live, job_id: str) -> str:
    return live.says("logs", "-f", job_id)


# ---- the environment


def test_variables_are_added_replaced_and_taken_as_they_are(live: Live) -> None:
    words = ["--env", "ADDED=a b=c", "--env", "LANG=C.weft", "--env", "NOTE", "--env", "EMPTY="]
    script = 'echo "$ADDED|$LANG|$NOTE|${EMPTY-unset}|$OTHER"'
    done = live.weft("submit", "--parsable", *words, "--", "sh", "-c", script, NOTE="kept", OTHER="inherited")
    assert ended(live, done.stdout.strip()) == "a b=c|C.weft|kept||inherited\n"


def test_a_clean_environment_has_what_was_given_and_little_more(live: Live) -> None:
    script = 'echo "$ADDED|$OTHER|${PATH:+path}"'
    done = live.weft("submit", "--parsable", "--clean-env", "--env", "ADDED=1", "--", "sh", "-c", script, OTHER="no")
    assert ended(live, done.stdout.strip()) == "1||path\n"


@pytest.mark.parametrize(
    ("word", "complaint"),
    [("=x", "names no variable"), ("NOT_SET_HERE", "is not set here"), ("WEFT_PAGE=1", "WEFT_PAGE is for weft to set")],
)
def test_a_wrong_variable_is_told_of(word: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        with_variables({"PATH": "/bin"}, [word])


def test_a_hostile_number_of_variables_is_refused() -> None:
    env = with_variables({}, [f"V{i}=x" for i in range(20_001)])
    with pytest.raises(InputError, match="20,001 variables"):
        job_request(["true"], None, {"env": env})


# ---- the folder


def test_a_job_runs_in_the_folder_that_is_named(live: Live, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    job_id = live.submit("--cwd", "there", "--", "pwd")
    assert ended(live, job_id) == f"{tmp_path / 'there'}\n"


def test_a_folder_that_is_not_one_is_refused_at_once(live: Live, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, complaint in (("nowhere", "does not exist"), ("file", "is not a folder"), ("x" * 300, "bytes")):
        done = live.weft("submit", "--cwd", name, "--", "true")
        assert done.returncode == 2
        assert complaint in done.stderr


# ---- the output


def test_what_is_printed_goes_to_the_file_and_logs_show_it(live: Live, tmp_path: Path) -> None:
    job_id = live.submit("--name", "a/b", "--output", "%x-%j-%4t.txt", "--", "sh", "-c", "echo out; echo err >&2")
    assert ended(live, job_id) == "out\nerr\n"
    path = tmp_path / f"a_b-{job_id}-0000.txt"
    assert path.read_text() == "out\nerr\n"
    assert live.job(job_id)["output"] == "%x-%j-%4t.txt"
    assert f"{'output:':<11} %x-%j-%4t.txt" in live.says("status", job_id)


def test_elements_and_tasks_have_files_of_their_own(live: Live, tmp_path: Path) -> None:
    array = live.submit("--array", "3-4", "--output", "%A.%a", "--", "sh", "-c", "echo $WEFT_ARRAY_INDEX")
    gang = live.submit("--ntasks", "2", "--output", "%j.%t", "--", "sh", "-c", "echo rank $RANK")
    for job_id in (f"{array}_3", f"{array}_4", gang):
        ended(live, job_id)
    assert [(tmp_path / f"{array}.{index}").read_text() for index in (3, 4)] == ["3\n", "4\n"]
    assert [(tmp_path / f"{gang}.{rank}").read_text() for rank in (0, 1)] == ["rank 0\n", "rank 1\n"]
    assert live.says("logs", "--task", "1", gang) == "rank 1\n"


def test_a_file_is_emptied_at_first_and_later_attempts_append(live: Live, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("of an earlier job\n")
    script = "echo attempt $WEFT_ATTEMPT; test $WEFT_ATTEMPT = 2"
    job_id = live.submit("--retries", "1", "--output", "out", "--", "sh", "-c", script)
    assert ended(live, job_id) == "attempt 1\nattempt 2\n"
    assert (tmp_path / "out").read_text() == "attempt 1\nattempt 2\n"


def test_run_shows_what_goes_to_the_file(live: Live, tmp_path: Path) -> None:
    done = live.weft("run", "--output", "out", "--", "sh", "-c", "echo shown")
    assert "shown\n" in done.stdout
    assert (tmp_path / "out").read_text() == "shown\n"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path) -> None:
    path.mkdir()


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("put", [_fifo, _folder, _loop, _device])
def test_an_output_that_is_no_file_fails_the_job_and_nothing_else(live: Live, tmp_path: Path, put: Any) -> None:
    put(tmp_path / "out")
    job_id = live.submit("--output", "out", "--", "echo", "hello")
    wait_until(lambda: live.job(job_id)["state"] in ("FAILED", "CANCELLED"), "it has failed")
    assert "cannot be written" in live.job(job_id)["reason"]
    assert ended(live, live.submit("--", "echo", "fine")) == "fine\n"


def test_an_output_in_a_folder_that_is_not_there_fails_with_its_reason(live: Live) -> None:
    job_id = live.submit("--output", "no/where/%j", "--", "echo", "hello")
    wait_until(lambda: live.job(job_id)["state"] == "FAILED", "it has failed")
    assert "no such file or directory" in live.job(job_id)["reason"]


def test_output_may_be_thrown_away(live: Live) -> None:
    job_id = live.submit("--output", "/dev/null", "--", "echo", "hello")
    wait_until(lambda: live.job(job_id)["state"] == "SUCCEEDED", "it has ended")
    done = live.weft("logs", job_id)
    assert (done.returncode, "is not a regular file" in done.stderr) == (1, True)


def test_logs_refuse_what_a_job_has_put_in_place_of_its_output(live: Live, tmp_path: Path) -> None:
    job_id = live.submit("--output", "out", "--", "sh", "-c", "rm out; mkfifo out; echo done > done")
    wait_until(lambda: live.job(job_id)["state"] == "SUCCEEDED", "it has ended")
    assert stat.S_ISFIFO((tmp_path / "out").stat().st_mode)
    done = live.weft("logs", job_id)
    assert (done.returncode, "is not a regular file" in done.stderr) == (1, True)


def test_the_file_has_the_mode_that_the_jobs_umask_gives(live: Live, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        ended(live, live.submit("--output", "out", "--", "echo"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


# ---- CPU cores, devices, times, priorities, dependencies


def test_a_job_is_told_its_cores_and_the_node_shows_them(live: Live) -> None:
    job_id = live.submit("--cpus", "1", "--", "sh", "-c", "echo $WEFT_CPUS_PER_TASK $OMP_NUM_THREADS; sleep 60")
    live.is_("RUNNING", job_id)
    wait_until(lambda: live.says("logs", job_id) == "1 1\n", "it has said so")
    (node,) = live.json("nodes")
    assert (node["cpus"], node["cpus_declared"]) == (len(os.sched_getaffinity(0)), 1)
    assert "CPU cores are declared by jobs" in live.says("nodes")
    live.says("cancel", job_id)
    done = live.weft("submit", "--cpus", "99999", "--", "true")
    assert "it asks for 99999 CPU cores, and there are only" in done.stderr


def test_a_job_computes_on_the_device_that_it_names(live: Live) -> None:
    job_id = live.submit("--gpu-ids", "1", "--", "sleep", "60")
    live.is_("RUNNING", job_id)
    job = live.job(job_id)
    assert ([each.rpartition(":")[2] for each in job["devices"]], job["gpu_ids"]) == (["1"], [1])
    second = live.submit("--gpu-ids", "1", "--", "true")
    assert "needs the devices 1; in use: 1" in live.says("why", second)
    live.says("cancel", second, job_id)
    for words, complaint in (
        (["--gpu-ids", "7"], "there is no device 7 here"),
        (["--gpu-ids", "0,0"], "named twice"),
        (["--gpu-ids", "-1"], "is no index of a device"),
        (["--gpu-ids", "0,1", "--gpus", "1"], "2 devices are named, and 1 asked for"),
    ):
        done = live.weft("submit", *words, "--", "true")
        assert (done.returncode, complaint in done.stderr) == (2, True), done.stderr


def test_a_job_begins_at_its_time_and_says_so_until_then(own: Live) -> None:
    own.up()
    late = own.submit("--begin", "now+1h", "--", "true")
    soon = own.submit("--begin", "2s", "--", "date", "+%s.%N")
    asked_s = time.time()
    assert "begins at 20" in own.says("why", late)
    assert "begins at 20" in own.job(late)["reason"]
    assert "begins:" in own.says("status", late)
    own.kill_daemon()
    own.says("up")
    assert float(ended(own, soon)) >= asked_s + 2 - 2.0
    assert own.job(late)["state"] == "PENDING"


def test_a_priority_orders_ones_own_jobs(live: Live) -> None:
    blocker = live.submit("--gpus", "2", "--", "sleep", "60")
    live.is_("RUNNING", blocker)
    low = live.submit("--tenant", "ada", "--gpus", "2", "--", "true")
    other = live.submit("--tenant", "bo", "--gpus", "2", "--", "true")
    high = live.submit("--tenant", "ada", "--gpus", "2", "--priority", "5", "--", "true")
    assert [live.job(each)["position"] for each in (high, other, low)] == [1, 2, 3]
    assert live.job(high)["priority"] == 5
    live.says("cancel", blocker)
    for each in (low, other, high):
        ended(live, each)
    started = {each: live.job(each)["started_at"] for each in (high, other, low)}
    assert sorted(started, key=lambda each: started[each]) == [high, other, low]
    assert live.weft("submit", "--priority", "101", "--", "true").returncode == 2


def test_dependencies_of_every_kind_as_in_slurm(live: Live) -> None:
    first = live.submit("--hold", "--", "false")
    always = live.submit("--after", f"afterany:{first}", "--", "true")
    only_then = live.submit("--after", f"afternotok:{first}", "--", "true")
    never = live.submit("--after", f"afterok:{first},afterany:{always}", "--", "true")
    assert "starts once" in live.job(only_then)["reason"]
    live.says("release", first)
    for job_id, state in ((always, "SUCCEEDED"), (only_then, "SUCCEEDED"), (never, "CANCELLED")):
        wait_until(lambda job_id=job_id, state=state: live.job(job_id)["state"] == state, f"{job_id} is {state}")  # type: ignore[misc]
    assert live.job(never)["reason"] == f"job {first}, which it comes after, has failed"
    assert "no kind of dependency" in live.weft("submit", "--after", "afterwards:1", "--", "true").stderr


# ---- times as people write them


@pytest.mark.parametrize(
    ("text", "in_s"),
    [
        ("now", 0),
        ("now+2h", 7200),
        ("now + 90", 90),
        ("now+2hours", 7200),
        ("1week", 7 * 86400),
        ("2h", 7200),
        ("30m", 1800),
        ("16:00", 1800),
        ("16:00:30", 1830),
        ("15:00", 86400 - 1800),
        ("teatime", 1800),
        ("midnight", 8.5 * 3600),
        ("tomorrow", 8.5 * 3600),
        ("2026-11-19T08:00", 16.5 * 3600),
        ("2026-11-19", 8.5 * 3600),
        ("2020-01-01", None),
    ],
)
def test_times_to_begin_at(text: str, in_s: float | None) -> None:
    at = parsed_time(text, HERE)
    assert at == pytest.approx(HERE + in_s) if in_s is not None else at < HERE


@pytest.mark.parametrize(
    "text",
    ["", "soon", "25:00", "12:61", "now+", "now-1h", "2026-13-01", "9999d", "9999-01-01", "1" * 200, "x" * 2**20],
)
def test_no_times_to_begin_at(text: str) -> None:
    with pytest.raises(InputError):
        parsed_time(text, HERE)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 1e300])
def test_numbers_that_are_no_times(number: float) -> None:
    with pytest.raises(InputError):
        parsed_time(number, HERE)
