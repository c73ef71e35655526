"""Every verb, as a person types it, with a real daemon behind it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from livehome import Live, has_gone

from waiting import PATIENCE_S
from weft.client import Client
from weft.node.exec.command_limits import the_library
from weft.runtime.allocator import VERSION

PROMISED = {
    "id", "name", "tenant", "class", "state", "reason", "exit_code", "attempt", "devices", "submitted_at", "started_at",
    "finished_at", "steps", "step_rate_hz",
}  # fmt: skip


def ended(live: Live, job_id: str) -> str:
    """What it printed, up to its end."""
    return live.says("logs", "-f", job_id)


def test_a_job_gets_the_submitters_folder_umask_and_environment(live: Live) -> None:
    before = os.umask(0o027)
    try:
        done = live.weft("submit", "--parsable", "--", "sh", "-c", "pwd; umask; echo $NOTE", NOTE="two words")
    finally:
        os.umask(before)
    assert ended(live, done.stdout.strip()) == f"{Path.cwd()}\n0027\ntwo words\n"


def test_a_submit_says_what_it_did_on_stdout(live: Live) -> None:
    assert re.fullmatch(r"submitted job \d+\n", live.says("submit", "--", "true"))
    said = live.says("submit", "--array", "3-4", "--", "true")
    assert re.fullmatch(r"submitted job (\d+): 2 elements, \1_3 to \1_4\n", said)


def test_every_element_of_an_array_knows_its_index(live: Live) -> None:
    array = live.submit("--array", "5,7%1", "--", "sh", "-c", "echo $WEFT_ARRAY_INDEX")
    assert [ended(live, f"{array}_{index}") for index in (5, 7)] == ["5\n", "7\n"]


def test_a_job_starts_after_those_it_was_told_to_wait_for(live: Live) -> None:
    first = live.submit("--hold", "--", "sh", "-c", "echo first > order")
    second = live.submit("--after", first, "--", "sh", "-c", "echo second >> order; cat order")
    assert live.job(second)["state"] == "PENDING"
    assert live.weft("release", second).stderr == f"job {second} is not held\n"
    live.says("release", first)
    assert ended(live, second) == "first\nsecond\n"


def test_the_queue_shows_who_waits_and_why(live: Live) -> None:
    held = live.submit("--hold", "--name", "later", "--tenant", "vision", "--", "true")
    heads, *rows = live.says("queue").splitlines()
    assert heads.split() == ["ID", "NAME", "TENANT", "ST", "TIME", "DEVICES", "STEPS", "STEPS/S", "REASON"]
    row = next(row.split() for row in rows if row.split()[0] == held)
    assert row[:6] == [held, "later", "vision", "PD", "0:00", "(1)"]
    assert row[8:]
    live.says("cancel", held)


def test_ended_jobs_are_listed_on_request(live: Live) -> None:
    job_id = live.submit("--", "true")
    ended(live, job_id)
    assert job_id not in live.says("queue", "--parsable").split()
    assert job_id in live.says("queue", "--all", "--parsable").split()


def test_the_json_of_a_job_has_what_is_promised(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    listed = next(job for job in live.json("queue") if job["id"] == job_id)
    assert listed.keys() >= PROMISED
    assert (listed["state"], listed["exit_code"], listed["started_at"]) == ("PENDING", None, None)
    live.says("release", job_id)
    ended(live, job_id)
    job = live.job(job_id)
    assert job.keys() >= PROMISED
    assert (job["state"], job["exit_code"], job["attempt"]) == ("SUCCEEDED", 0, 1)


def test_the_status_is_for_people_too(live: Live) -> None:
    job_id = live.submit("--name", "mine", "--", "sh", "-c", "exit 3")
    ended(live, job_id)
    said = live.says("status", job_id)
    assert re.search(r"^name: +mine$", said, re.MULTILINE)
    assert re.search(r"^state: +FAILED \(.*3\)$", said, re.MULTILINE)
    assert re.search(r"^command: +sh -c 'exit 3'$", said, re.MULTILINE)


def test_why_is_answered_in_words_and_in_json(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    assert "held" in live.says("why", job_id)
    assert live.json("why", job_id)["id"] == job_id
    live.says("cancel", job_id)


def test_a_running_job_is_cancelled(live: Live) -> None:
    job_id = live.submit("--", "sleep", "600")
    live.is_("RUNNING", job_id)
    pids = live.job(job_id)["pids"]
    done = live.weft("cancel", job_id)
    assert (done.stdout, done.stderr) == ("", f"cancelled {job_id}\n")
    assert Client(live.home).wait(job_id, PATIENCE_S)["state"] == "CANCELLED"
    assert all(map(has_gone, pids))


def test_to_cancel_what_has_ended_is_refused_and_the_others_are_cancelled_all_the_same(live: Live) -> None:
    over, held = live.submit("--", "true"), live.submit("--hold", "--", "true")
    ended(live, over)
    done = live.weft("cancel", over, held)
    assert done.returncode == 1
    assert f"cancelled {held}\n" in done.stderr
    assert re.search(rf"^error: .*{over}", done.stderr, re.MULTILINE)


def test_all_of_an_array_is_held_released_and_cancelled_by_its_number(live: Live) -> None:
    array = live.submit("--array", "1-2", "--hold", "--", "sleep", "600")
    live.says("release", array)
    assert live.weft("hold", f"{array}_1").returncode in (0, 1)  # it may run already
    done = live.weft("cancel", array)
    assert done.stderr == f"cancelled {array}_1\ncancelled {array}_2\n"


def test_nodes_have_devices(live: Live) -> None:
    heads, *rows = live.says("nodes").splitlines()
    assert "DEVICE" in heads
    assert [row.split()[2] for row in rows] == ["cpu:0", "cpu:1"]
    assert len(live.json("nodes")[0]["devices"]) == 2


def test_the_history_has_the_latest_first(live: Live) -> None:
    for job_id in (first := live.submit("--", "true"), second := live.submit("--after", first, "--", "true")):
        ended(live, job_id)
    assert [job["id"] for job in live.json("history", "--limit", "2")] == [second, first]
    assert len(live.says("history", "--limit", "1").splitlines()) == 2


def test_each_task_of_a_gang_has_a_log(live: Live) -> None:
    job_id = live.submit("--ntasks", "2", "--", "sh", "-c", "echo $RANK of $WORLD_SIZE")
    assert ended(live, job_id) == "0 of 2\n"
    assert live.says("logs", "--task", "1", job_id) == "1 of 2\n"
    done = live.weft("logs", "--task", "2", job_id)
    assert (done.returncode, "has no task 2" in done.stderr, "0 to 1" in done.stderr) == (2, True, True)


def test_a_job_that_prints_nothing_has_an_empty_log(live: Live) -> None:
    job_id = live.submit("--hold", "--", "true")
    done = live.weft("logs", job_id)
    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing yet" in done.stderr
    live.says("cancel", job_id)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["submit"], "no command is given", "weft run -- python train.py"),
        (["run", "--time", "2w", "--", "true"], '"2w" is not a length of time', "90s"),
        (["submit", "--time", "1:77:00", "--", "true"], "is not a length of time", "HH:MM:SS"),
        (["submit", "--gpu-mem", "lots", "--", "true"], '"lots" is not a size', "1.5G"),
        (["submit", "--mem", "0", "--", "true"], "no Python interpreter could start", "at least 64M"),
        (["submit", "--array", "1-x", "--", "true"], 'at character 1: "1-x"', "1-10%4"),
        (["submit", "--array", "5-1", "--", "true"], "ends before it begins", "1-5"),
        (["submit", "--array", "1-10%0", "--", "true"], 'at character 6: "0" lets no element run', "%1"),
        (["submit", "--array", "0-10000", "--", "true"], "10,001 elements", "several arrays"),
        (["submit", "--after", "first", "--", "true"], '"first" is no job id', "17_3"),
        (["submit", "--after", "99999", "--", "true"], "no job 99999", "weft queue --all"),
        (["submit", "--gpus", "0", "--", "true"], "--gpus", "weft submit --help"),
        (
            ["submit", "--gpus", "3", "--ntasks", "2", "--", "true"],
            "3 devices cannot be shared out evenly among 2 tasks",
            "4",
        ),
        (["submit", "--class", "best", "--", "true"], "--class", "weft submit --help"),
        (["status", "x"], '"x" is no job id', "17_3"),
        (["status", "99999"], "no job 99999", "weft queue"),
        (["logs", "99999"], "no job 99999", "weft queue"),
        (["cancel"], "ID", "weft cancel --help"),
        (["up", "--policy", "fifi"], 'unknown policy "fifi"', "fifo"),
        (["qeue"], 'there is no verb "qeue"', "did you mean weft queue?"),
        (["ps"], 'there is no verb "ps"', "did you mean weft queue?"),
        (["submit", "--name", "", "--", "true"], "a name is a text of 1 to 200", "without line breaks"),
    ],
)
def test_a_wrong_word_is_refused_with_a_hint(live: Live, words: list[str], error: str, hint: str) -> None:
    done = live.weft(*words)
    assert (done.returncode, done.stdout) == (2, "")
    said, advice = done.stderr.strip().splitlines()
    assert said.startswith("error: ")
    assert error in said
    assert advice.startswith("hint: ")
    assert hint in advice


def test_up_on_a_running_weft_changes_the_policy_and_says_what_runs(live: Live) -> None:
    pid = live.daemon_pid()
    done = live.weft("up", "--policy", "las:quantum_s=100")
    assert done.returncode == 0
    assert f"weft is already running: process {pid}, policy las:quantum_s=100" in done.stderr
    assert "policy fifo" in live.weft("up", "--policy", "fifo").stderr
    assert live.daemon_pid() == pid


def test_a_policy_of_ones_own_is_found_whatever_folder_the_daemon_is_in(live: Live) -> None:
    assert "mine.py:ByName" in live.weft("up", "--policy", "mine.py:ByName").stderr
    assert "policy fifo" in live.weft("up", "--policy", "fifo").stderr


def test_ids_are_completed_from_what_the_daemon_knows(live: Live) -> None:
    job_id = live.submit("--hold", "--name", "later", "--", "true")
    asked = {"_WEFT_COMPLETE": "bash_complete", "COMP_WORDS": "weft cancel ", "COMP_CWORD": "2"}
    assert f"plain,{job_id}" in live.weft(**asked).stdout.splitlines()
    live.says("cancel", job_id)
    assert f"plain,{job_id}" not in live.weft(**asked).stdout.splitlines()


def test_the_doctor_finds_a_healthy_weft(live: Live) -> None:
    if not the_library()[0]:
        pytest.skip("weft was installed without its native library, and the doctor says so")
    done = live.weft("doctor")
    assert done.returncode == 0, done.stdout
    assert all(line.startswith("ok") for line in done.stdout.splitlines())
    findings = {each["what"]: each for each in live.json("doctor")}
    assert findings["native library"]["says"] == f"{the_library()[0]}, version {VERSION}"
    assert findings["coordinator"]["says"] == "connected"
    assert findings["fencing"]["says"].startswith(("cgroup v2 at /", "by process scans, no cgroup: "))
    assert findings["devices"]["says"].startswith("2: cpu:0")


def test_a_listing_is_printable_whatever_a_job_is_called(live: Live) -> None:
    job_id = live.submit("--hold", "--", "sh", "-c", "\x1b[2J")
    assert "\x1b" not in live.says("status", job_id)
    live.says("cancel", job_id)


def test_submitting_loads_nothing_heavy(live: Live) -> None:
    done = live.weft("submit", "--time", "2h", "--", "true", PYTHONPROFILEIMPORTTIME="1")
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not {"numpy", "scipy", "rich", "fastapi", "pydantic", "asyncio", "subprocess", "http.client"} & loaded
