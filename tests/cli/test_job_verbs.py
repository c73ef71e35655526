"""`weft pause`, `resume`, `wait`, `rerun`, and what `logs`, `status` and `why` say of arrays and of several jobs."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from livehome import Live

from waiting import PATIENCE_S, state_of, wait_until
from weft.client import Client

pytestmark = pytest.mark.torch

TRAIN = """
import time
import torch
w = torch.nn.Parameter(torch.zeros(8))
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(1_000_000):
    optimizer.zero_grad()
    (w.sum() ** 2).backward()
    optimizer.step()
    time.sleep(0.005)
    print("step", step, flush=True)
"""


def waited(live: Live, *words: str) -> int:
    return live.weft("wait", *words).returncode


def test_a_paused_job_lets_others_have_its_device_and_goes_on_where_it_was(own: Live) -> None:
    own.says("up", "--devices", "cpu=1", "--policy", "fifo")
    Path("train.py").write_text(TRAIN)
    job_id = own.submit("--", sys.executable, "train.py")
    wait_until(lambda: own.job(job_id)["steps"] > 3, "it trains")
    assert own.weft("pause", job_id).stderr == f"paused {job_id}\n"
    own.is_("PAUSED", job_id)
    assert own.job(job_id)["reason"] == "paused by its owner"
    assert re.search(rf"^{job_id} .* PA .* paused by its owner$", own.says("queue"), re.MULTILINE)
    said = own.says("why", job_id)
    assert f"{job_id} is PAUSED: paused by its owner" in said
    assert f"weft resume {job_id}" in said
    other = own.submit("--", "true")
    assert waited(own, other) == 0
    wait_until(lambda: "paused at step" in own.says("history", job_id), "it stands between two steps")
    before = own.job(job_id)["steps"]
    assert own.weft("resume", job_id).stderr == f"resumed {job_id}\n"
    wait_until(lambda: own.job(job_id)["steps"] > before, "it goes on")
    assert (own.job(job_id)["attempt"], own.job(job_id)["preemptions"]) == (1, 0)
    said = own.says("history", job_id)
    assert "paused by its owner" in said
    assert "resumed by its owner" in said


def test_a_pause_survives_the_end_of_the_daemon_and_of_the_coordinator(own: Live) -> None:
    own.says("up", "--devices", "cpu=1", "--policy", "fifo")
    job_id = own.submit("--", "sleep", "600")
    own.is_("RUNNING", job_id)
    (pid,) = own.job(job_id)["pids"]
    own.says("pause", job_id)
    wait_until(lambda: state_of(pid) == "T", "it is stopped where it is, for it makes no steps")
    own.kill_daemon()
    own.says("up")
    own.says("down")
    own.says("up")
    assert (own.job(job_id)["state"], own.job(job_id)["reason"]) == ("PAUSED", "paused by its owner")
    assert waited(own, own.submit("--", "true")) == 0
    assert state_of(pid) == "T"
    own.says("release", job_id)
    wait_until(lambda: state_of(pid) != "T", "it goes on")
    own.is_("RUNNING", job_id)


def test_a_waiting_job_is_paused_too_and_hold_and_pause_end_alike(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    live.says("pause", job_id)
    assert live.job(job_id)["reason"] == "paused by its owner"
    assert live.weft("pause", job_id).stderr == f"job {job_id} is already paused\n"
    live.says("resume", job_id)
    assert waited(live, job_id) == 0
    assert live.weft("resume", job_id).returncode == 1


def test_who_runs_cannot_be_held_and_the_hint_says_what_can(live: Live) -> None:
    job_id = live.submit("--", "sleep", "600")
    live.is_("RUNNING", job_id)
    done = live.weft("hold", job_id)
    assert (done.returncode, f"weft pause {job_id}" in done.stderr) == (1, True)
    live.says("cancel", job_id)


def test_all_of_an_array_is_paused_and_resumed_by_its_number(live: Live) -> None:
    array = live.submit("--array", "1-3%1", "--", "sleep", "600")
    assert live.weft("pause", array).stderr.splitlines() == [f"paused {array}_{at}" for at in (1, 2, 3)]
    live.says("cancel", f"{array}_1")
    assert live.weft("resume", array).stderr.count("resumed") >= 2
    live.says("cancel", array)


# ---- wait


def test_the_exit_code_of_wait_is_that_of_one_job(live: Live) -> None:
    job_id = live.submit("--", "sh", "-c", "exit 7")
    done = live.weft("wait", job_id)
    assert (done.returncode, done.stdout, done.stderr) == (7, "", f"weft: job {job_id} failed\n")


def test_wait_for_several_is_0_if_all_succeeded_and_else_1(live: Live) -> None:
    good, bad = live.submit("--", "true"), live.submit("--", "sh", "-c", "exit 7")
    array = live.submit("--array", "1-4", "--", "sh", "-c", "exit $((WEFT_ARRAY_INDEX == 3))")
    assert waited(live, good, good) == 0
    assert waited(live, good, bad) == 1
    assert waited(live, array) == 1
    answer = json.loads(live.weft("wait", "--json", array, good).stdout)
    assert answer["states"] == {"SUCCEEDED": 4, "FAILED": 1}
    assert answer["unsuccessful"] == [array]


def test_wait_ends_with_its_timeout_and_says_so_by_its_code(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    done = live.weft("wait", "--timeout", "0.1", job_id)
    assert (done.returncode, "1 pending" in done.stderr) == (3, True)
    live.says("cancel", job_id)
    assert waited(live, job_id) == 143


def test_wait_for_any_prints_which_was_first(live: Live) -> None:
    held, job_id = live.submit("--hold", "--", "true"), live.submit("--", "sh", "-c", "exit 5")
    done = live.weft("wait", "--any", held, job_id)
    assert (done.returncode, done.stdout) == (5, f"{job_id}\n")
    array = live.submit("--array", "1-2%1", "--", "sh", "-c", "test $WEFT_ARRAY_INDEX = 1 || sleep 600")
    assert live.weft("wait", "--any", array).stdout == f"{array}_1\n"
    live.says("cancel", held, array)


def test_wait_outlives_the_daemon(own: Live) -> None:
    own.says("up", "--devices", "cpu=1", "--policy", "fifo")
    job_id = own.submit("--", "sh", "-c", "until [ -e go ]; do sleep 0.05; done; exit 6")
    own.is_("RUNNING", job_id)
    waiting = own.starts("wait", job_id)
    own.kill_daemon()
    Path("go").touch()
    own.says("up")
    if waiting.wait(PATIENCE_S) == 1:  # it had not been answered once: then there is no daemon to wait for
        assert "not running" in waiting.communicate()[1]
        assert waited(own, job_id) == 6
    else:
        waiting.communicate()
        assert waiting.returncode == 6


# ---- rerun


def test_a_rerun_is_the_same_command_folder_environment_and_options(live: Live) -> None:
    script = "pwd; umask; echo $NOTE $WEFT_ARRAY_INDEX"
    done = live.weft(
        "submit", "--parsable", "--name", "mine", "--retries", "2", "--", "sh", "-c", script, NOTE="two words"
    )
    job_id = done.stdout.strip()
    waited(live, job_id)
    again = live.says("rerun", "--parsable", job_id).strip()
    assert again != job_id
    assert waited(live, again) == 0
    assert live.says("logs", again) == live.says("logs", job_id)
    same = ("name", "command", "cwd", "retries", "tenant", "gpus")
    assert [live.job(again)[each] for each in same] == [live.job(job_id)[each] for each in same]


def test_an_array_is_run_again_whole_and_an_element_with_its_index(live: Live) -> None:
    array = live.submit("--array", "2-3%1", "--", "sh", "-c", "echo $WEFT_ARRAY_INDEX")
    done = live.weft("rerun", array)
    assert done.returncode == 1 or waited(live, array) == 0
    waited(live, array)
    again = live.says("rerun", "--parsable", array).strip()
    element = live.says("rerun", "--parsable", f"{array}_3").strip()
    assert waited(live, again, element) == 0
    assert live.says("logs", again) == f"{again}_2: 2\n{again}_3: 3\n"
    assert element.endswith("_3")
    assert live.says("logs", element) == "3\n"


def test_what_has_not_ended_is_not_run_again_and_others_are(live: Live) -> None:
    held, over = live.submit("--hold", "--", "true"), live.submit("--", "true")
    waited(live, over)
    done = live.weft("rerun", held, over)
    assert done.returncode == 1
    assert f"a rerun of {over}" in done.stdout
    assert f"job {held} has not ended" in done.stderr
    live.says("cancel", held)


# ---- logs


def test_the_logs_of_several_jobs_have_prefixes(live: Live) -> None:
    one = live.submit("--", "printf", "a\\nb\\nhalf")
    two = live.submit("--", "printf", "\\033[31mred\\n")
    waited(live, one, two)
    assert live.says("logs", one, two) == f"{one}: a\n{one}: b\n{one}: half\n{two}: \033[31mred\n"
    assert live.says("logs", "--tail", "1", one, two) == f"{one}: half\n{two}: \033[31mred\n"
    assert live.says("logs", "--tail", "2", one) == "b\nhalf"
    assert live.says("logs", "-f", two, one).splitlines()[0] == f"{two}: \033[31mred"


def test_all_of_an_array_is_followed_until_its_end(live: Live) -> None:
    array = live.submit("--array", "1-4%2", "--", "sh", "-c", "echo from $WEFT_ARRAY_INDEX; sleep 0.1; echo to")
    lines = live.says("logs", "-f", array).splitlines()
    assert sorted(lines) == sorted(f"{array}_{at}: {what}" for at in range(1, 5) for what in (f"from {at}", "to"))
    for at in range(1, 5):
        assert lines.index(f"{array}_{at}: from {at}") < lines.index(f"{array}_{at}: to")


def test_a_job_that_prints_without_end_keeps_no_other_from_being_shown(live: Live) -> None:
    loud, quiet = live.submit("--", "yes"), live.submit("--", "echo", "quiet")
    with live.starts("logs", "-f", loud, quiet) as reading:
        assert reading.stdout
        while reading.stdout.readline() != f"{quiet}: quiet\n":
            pass
        os.kill(reading.pid, signal.SIGINT)
    live.says("cancel", loud)
    live.home.log(loud, 0).unlink()


def test_thousands_of_elements_are_one_request(live: Live) -> None:
    array = live.submit("--array", "1-3000%1", "--hold", "--", "true")
    client = Client(live.home)
    asked: list[str] = []
    ask = client._connection.request
    client._connection.request = lambda method, target, *rest: asked.append(target) or ask(method, target, *rest)  # type: ignore[method-assign, func-returns-value]
    assert client.jobs_of([array])[-1] == f"{array}_3000"
    assert client.array(array)["states"] == {"PENDING": 3000}
    assert client.wait_for([array], timeout_s=0)["states"] == {"PENDING": 3000}
    assert len(asked) == 3
    live.says("cancel", array)


# ---- status, why


def test_the_status_of_an_array_is_a_summary_by_reason(live: Live) -> None:
    array = live.submit("--array", "1-5%2", "--name", "sweep", "--", "sh", "-c", "exit $((WEFT_ARRAY_INDEX == 2))")
    waited(live, array)
    said = live.says("status", array)
    assert f"array {array} (sweep): 5 elements of 1-5%2" in said
    assert "4 succeeded, 1 failed" in said
    assert re.search(rf"1 failed: .*exit code 1 \({array}_2\)", said)
    held = live.submit("--array", "1-5%2", "--hold", "--", "true")
    said = live.says("why", held)
    assert "5 pending: held by its owner" in said
    assert live.json("status", held)["groups"] == live.json("why", held)["groups"]
    live.says("cancel", held)


def test_several_ids_are_shown_one_after_the_other(live: Live) -> None:
    one, array = live.submit("--", "true"), live.submit("--array", "1-2", "--", "true")
    waited(live, one, array)
    assert re.findall(r"^(?:id: +|array )(\d+)", live.says("status", one, array), re.MULTILINE) == [one, array]
    assert [each["id"] for each in live.json("status", one, array)] == [one, array]
    assert [each["id"] for each in live.json("why", one, array)] == [one, array]


@pytest.mark.parametrize("verb", ["attach", "wait", "pause", "resume", "rerun", "logs", "status", "why"])
@pytest.mark.parametrize("wrong", ["x", "1_2_3", "../1", "99999"])
def test_an_id_that_names_nothing_is_refused(live: Live, verb: str, wrong: str) -> None:
    done = live.weft(verb, wrong)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.match(r"error: .*(is no job id|there is no job 99999)\nhint: ", done.stderr)
