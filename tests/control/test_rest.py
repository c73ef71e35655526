"""REST under /v1: what is asked for is answered in the form that is promised, and errors say what to do."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from office import MACHINE, devices
from rest import Served, served

from waiting import wait_until
from weft.control.loop.inputs import AttemptReport, NodeConnected, NodeDevices
from weft.control.service import PATIENCE_S

JOB_KEYS = {
    "id", "name", "tenant", "class", "state", "reason", "exit_code", "attempt", "devices", "submitted_at", "started_at",
    "finished_at", "steps", "step_rate_hz", "command", "cwd", "gpus", "ntasks", "array", "array_index", "after",
    "position", "metrics", "eta_s", "run_s", "wait_s", "preemptions", "log", "retries", "time_s", "pids", "host_bytes",
    "memory", "unseats", "guaranteed", "guest", "beside", "lane", "interference_ratio", "share", "migrate",
}  # fmt: skip


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Served]:
    """With a node of two devices."""
    with served(tmp_path) as here:
        here.tell(NodeConnected(MACHINE, devices(2)))
        yield here


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests that change nothing."""
    with served(tmp_path_factory.mktemp("quiet")) as here:
        here.tell(NodeConnected(MACHINE, devices(2)))
        yield here


def submitted(weft: Served, **asked: Any) -> str:
    status, answer = weft.ask("POST", "/v1/jobs", {"command": ["true"], "env": {}, **asked})
    assert status == 201, answer
    job_id: str = answer["id"]
    return job_id


def test_a_job_from_its_submission_to_its_end(weft: Served) -> None:
    job_id = submitted(weft, name="train", command=["python", "train.py"], cwd="/srv", gpus=2)
    status, job = weft.ask("GET", f"/v1/jobs/{job_id}")
    assert status == 200
    assert job.keys() >= JOB_KEYS
    assert (job["state"], job["devices"]) == ("RUNNING", ["here:0", "here:1"])
    weft.tell(AttemptReport(job_id, 1, "started", {"pids": [7]}))
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 3, "message": ""}))
    status, job = weft.ask("GET", f"/v1/jobs/{job_id}")
    assert (job["state"], job["exit_code"], job["reason"]) == ("FAILED", 3, "ended with exit code 3")
    assert job.keys() >= JOB_KEYS
    assert weft.ask("GET", "/v1/jobs")[1] == {"jobs": [], "total": 0, "next_cursor": None}
    assert [each["id"] for each in weft.ask("GET", "/v1/jobs?all=true")[1]["jobs"]] == [job_id]
    assert [each["id"] for each in weft.ask("GET", "/v1/jobs?state=FAILED")[1]["jobs"]] == [job_id]
    assert weft.ask("GET", "/v1/jobs?state=RUNNING")[1] == {"jobs": [], "total": 0, "next_cursor": None}
    assert [each["id"] for each in weft.ask("GET", "/v1/history")[1]["jobs"]] == [job_id]
    told = [event["what"] for event in weft.ask("GET", f"/v1/jobs/{job_id}/history")[1]["events"]]
    assert told == ["Submitted", "Start", "Reported", "Reported", "Ended"]
    assert weft.ask("GET", f"/v1/jobs/{job_id}/why")[1]["state"] == "FAILED"


def test_waiting_ends_when_the_job_does(weft: Served) -> None:
    job_id = submitted(weft)
    answers: list[Any] = []
    waiter = threading.Thread(target=lambda: answers.append(weft.ask("GET", f"/v1/jobs/{job_id}/wait?timeout_s=25")))
    waiter.start()
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 0}))
    waiter.join(20)
    assert [(status, job["state"]) for status, job in answers] == [(200, "SUCCEEDED")]


def test_waiting_ends_after_its_time_or_when_the_state_is_another(weft: Served) -> None:
    job_id = submitted(weft)
    assert weft.ask("GET", f"/v1/jobs/{job_id}/wait?timeout_s=0")[1]["state"] == "RUNNING"
    assert weft.ask("GET", f"/v1/jobs/{job_id}/wait?timeout_s=0.01")[1]["state"] == "RUNNING"
    assert weft.ask("GET", f"/v1/jobs/{job_id}/wait?state_not=PENDING")[1]["state"] == "RUNNING"


ERRORS: dict[str, tuple[str, str, Any, int, str]] = {
    "a job that is not there": ("GET", "/v1/jobs/7", None, 404, "there is no job 7"),
    "an element that is not there": ("POST", "/v1/jobs/7_1/cancel", None, 404, "there is no job 7_1"),
    "a number with zeros": ("GET", "/v1/jobs/007", None, 422, "job_id"),
    "no id": ("GET", "/v1/jobs/abc/why", None, 422, "job_id"),
    "a path that is not there": ("GET", "/v1/jbos", None, 404, "get /v1/jbos: not found"),
    "a way that is not there": ("DELETE", "/v1/health", None, 405, "method not allowed"),
    "no command": ("POST", "/v1/jobs", {}, 422, "command"),
    "an empty command": ("POST", "/v1/jobs", {"command": []}, 422, "command"),
    "a command without a program": ("POST", "/v1/jobs", {"command": [""]}, 422, "names no program"),
    "a key that is not there": ("POST", "/v1/jobs", {"command": ["a"], "gpu": 1}, 422, "gpu"),
    "an odd share": ("POST", "/v1/jobs", {"command": ["a"], "gpus": 3, "ntasks": 2}, 422, "cannot be shared evenly"),
    "a wrong array": ("POST", "/v1/jobs", {"command": ["a"], "array": "3-1"}, 422, "at character 1"),
    "a wrong folder": ("POST", "/v1/jobs", {"command": ["a"], "cwd": "here"}, 422, "begins with /"),
    "a zero byte": ("POST", "/v1/jobs", {"command": ["a\0b"]}, 422, "zero bytes"),
    "no text": ("POST", "/v1/jobs", {"command": [7]}, 422, "command"),
    "an odd variable": ("POST", "/v1/jobs", {"command": ["a"], "env": {"A=B": "c"}}, 422, "no name of a variable"),
    "what no file name can hold": ("POST", "/v1/jobs", {"command": ["\ud800"]}, 422, "no file name can hold"),
    "too many devices": ("POST", "/v1/jobs", {"command": ["a"], "gpus": 9}, 400, "9 devices"),
    "after nobody": ("POST", "/v1/jobs", {"command": ["a"], "after": ["99"]}, 404, "there is no job 99"),
    "an unknown policy": ("PUT", "/v1/policy", {"policy": "fofi"}, 400, 'unknown policy "fofi"'),
    "two policies": ("PUT", "/v1/policy", {"policy": "fifo,srtf"}, 400, "2 policies"),
    "a policy of no file": ("PUT", "/v1/policy", {"policy": "/no/such/file.py:Mine"}, 400, "/no/such/file.py"),
    "half a policy": ("PUT", "/v1/policy", {"policy": "tiresias-l:thresholds="}, 400, "thresholds"),
    "endless time": ("POST", "/v1/jobs", {"command": ["a"], "time_s": 1e300}, 422, "time_s"),
    "a wait without end": ("GET", "/v1/jobs/1/wait?timeout_s=inf", None, 422, "timeout_s"),
    "a wait that is no number": ("GET", "/v1/jobs/1/wait?timeout_s=nan", None, 422, "timeout_s"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_every_error_says_what_and_gives_a_hint(quiet: Served, case: str) -> None:
    method, path, body, code, message = ERRORS[case]
    status, answer = quiet.ask(method, path, body)
    assert (status, answer.keys()) == (code, {"error", "hint"})
    assert message in answer["error"]
    assert answer["hint"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"command": NaN}', b"[" * 100_000])
def test_what_is_no_json_is_refused(quiet: Served, raw: bytes) -> None:
    status, answer = quiet.ask("POST", "/v1/jobs", raw=raw)
    assert status in (400, 422)
    assert answer.keys() == {"error", "hint"}


def test_an_array_is_found_by_its_elements(weft: Served) -> None:
    number = submitted(weft, array="1-8")
    status, answer = weft.ask("GET", f"/v1/jobs/{number}")
    assert (status, answer["error"]) == (404, "1 is an array")
    assert answer["hint"] == "weft status 1_1; its elements are 1_1, 1_2, 1_3, 1_4, 1_5, …"
    assert weft.ask("GET", f"/v1/jobs/{number}_3")[1]["array_index"] == 3
    assert weft.ask("POST", f"/v1/jobs/{number}/cancel")[1]["ids"] == [f"1_{index}" for index in range(1, 9)]
    assert weft.ask("POST", f"/v1/jobs/{number}/cancel")[1]["ids"] == ["1_1", "1_2"], "those that had started"
    for index in (1, 2):
        weft.tell(AttemptReport(f"{number}_{index}", 1, "ended", {"exit_code": 143}))
    status, answer = weft.ask("POST", f"/v1/jobs/{number}/cancel")
    assert (status, answer["error"]) == (409, "all of array 1 is over already")


def test_held_released_and_not_held_while_it_runs(weft: Served) -> None:
    job_id = submitted(weft, hold=True)
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["reason"] == "held by its owner"
    assert weft.ask("POST", f"/v1/jobs/{job_id}/release") == (200, {"ids": [job_id]})
    assert weft.ask("POST", f"/v1/jobs/{job_id}/hold")[0] == 409


def test_the_environment_of_a_job_is_never_shown(weft: Served) -> None:
    job_id = submitted(weft, env={"SECRET_KEY": "hunter2", "HOME": "/home/ada"})
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["env"] == {"HOME": "(hidden)", "SECRET_KEY": "(hidden)"}
    for path in ("", "/why", "/history", "/wait?timeout_s=0"):
        assert "hunter2" not in str(weft.ask("GET", f"/v1/jobs/{job_id}{path}"))
    for path in ("/v1/jobs?all=true", "/v1/nodes", "/v1/health", "/metrics", "/v1/openapi.json"):
        assert "hunter2" not in str(weft.ask("GET", path))
    (run,) = [order for order in weft.sent if order["type"] == "run"]
    assert run["launch"]["env"] == {"HOME": "/home/ada", "SECRET_KEY": "hunter2"}
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 0}))
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["env"] == {}


def test_names_that_are_no_text_reach_the_node_as_they_are(weft: Served) -> None:
    odd = os.fsdecode(b"caf\xe9")
    submitted(weft, command=[odd, "tab\t", "日本"], cwd=f"/srv/{odd}", env={odd: f"{odd} value", "B": odd})
    (run,) = [order for order in weft.sent if order["type"] == "run"]
    launch = run["launch"]
    assert (launch["command"], launch["cwd"]) == ([odd, "tab\t", "日本"], f"/srv/{odd}")
    assert launch["env"] == {odd: f"{odd} value", "B": odd}
    job = weft.ask("GET", "/v1/jobs/1")[1]
    assert job["command"][0] == odd
    assert job["name"] == "caf"
    weft.tell(AttemptReport("1", 1, "ended", {"exit_code": 127, "message": f"there is no program {odd}"}))
    assert weft.ask("GET", "/v1/jobs/1")[1]["reason"] == "there is no program caf\\udce9"
    assert weft.ask("GET", "/v1/jobs/1/history")[0] == 200


def test_a_submission_sent_again_is_answered_the_same(weft: Served) -> None:
    first = weft.ask("POST", "/v1/jobs", {"command": ["true"], "request_id": "abc"})
    assert weft.ask("POST", "/v1/jobs", {"command": ["true"], "request_id": "abc"}) == first
    assert len(weft.ask("GET", "/v1/jobs")[1]["jobs"]) == 1


def test_the_policy_can_be_changed_and_seen(weft: Served) -> None:
    assert weft.ask("GET", "/v1/policy") == (200, {"policy": "fifo"})
    assert weft.ask("PUT", "/v1/policy", {"policy": "tiresias-l:thresholds=10"})[0] == 200
    assert weft.ask("GET", "/v1/policy")[1] == {"policy": "tiresias-l:thresholds=10"}
    assert weft.ask("GET", "/v1/health")[1]["policy"] == "tiresias-l:thresholds=10"


def test_that_the_settings_have_changed_or_are_wrong_is_a_warning(weft: Served, tmp_path: Path) -> None:
    def warnings() -> str:
        return " ".join(weft.ask("GET", "/v1/health")[1]["warnings"])

    assert "weft.toml" not in warnings()
    file = weft.service.home.settings
    file.write_text('policy = "las"\n')
    assert "weft.toml has changed since weft started: weft down, then weft up takes it up" in warnings()
    file.write_text('plicy = "las"\n')
    assert "unknown key plicy; weft would not start again with it" in warnings()
    file.unlink()
    assert "weft.toml" not in warnings()


def test_a_policy_of_ones_own_that_fails_is_shown_as_a_warning(weft: Served, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_text(
        "class Mine:\n"
        "    def decide(self, view):\n        raise ZeroDivisionError('division by zero')\n"
        "    def explain(self, view, job):\n        raise ZeroDivisionError('division by zero')\n"
    )
    assert weft.ask("PUT", "/v1/policy", {"policy": f"{file}:Mine"})[0] == 200
    job_id = submitted(weft)
    assert any("ZeroDivisionError" in warning for warning in weft.ask("GET", "/v1/health")[1]["warnings"])
    assert "ZeroDivisionError" in weft.ask("GET", f"/v1/jobs/{job_id}")[1]["reason"]
    assert weft.ask("GET", f"/v1/jobs/{job_id}/why")[0] == 200
    assert weft.ask("PUT", "/v1/policy", {"policy": "fifo"})[0] == 200
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["state"] == "RUNNING"
    assert not any("ZeroDivisionError" in warning for warning in weft.ask("GET", "/v1/health")[1]["warnings"])


def test_nodes_and_their_devices(weft: Served) -> None:
    submitted(weft)
    weft.tell(NodeDevices([devices(2)[0], devices(2, blocked_by="process 7 (python)")[1]]))
    (node,) = weft.ask("GET", "/v1/nodes")[1]["nodes"]
    assert (node["name"], [device["state"] for device in node["devices"]]) == (MACHINE, ["busy", "unmanaged"])


def test_logs_are_served_from_an_offset(weft: Served, tmp_path: Path) -> None:
    job_id = submitted(weft)
    assert weft.ask("GET", f"/v1/jobs/{job_id}/logs")[0] == 404
    (tmp_path / "jobs" / job_id).mkdir(parents=True)
    (tmp_path / "jobs" / job_id / "task-0.log").write_bytes("one\ntwö\n".encode())
    assert weft.ask("GET", f"/v1/jobs/{job_id}/logs?offset=4") == (200, "twö\n")
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 0}))
    assert weft.ask("GET", f"/v1/jobs/{job_id}/logs?follow=true") == (200, "one\ntwö\n")
    assert weft.ask("GET", f"/v1/jobs/{job_id}/logs?stream=err")[0] == 404


def test_metrics_can_be_read_by_the_official_parser(weft: Served) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    job_id = submitted(weft, name='a "quoted" name')
    weft.tell(AttemptReport(job_id, 1, "started", {"pids": [1]}))
    submitted(weft, gpu_mem_bytes=1 << 30)
    measured = {"persistent_bytes": 7, "ephemeral_bytes": 5, "overflow_bytes": 3, "peak_bytes": 9}
    weft.writer.control.records[job_id].note(measured)
    status, text = weft.ask("GET", "/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    states = {sample.labels["state"]: sample.value for sample in families["weft_jobs"].samples}
    assert (states["RUNNING"], states["PENDING"]) == (2, 0)
    found = {sample.labels["state"]: sample.value for sample in families["weft_devices"].samples}
    assert found == {"free": 0, "busy": 2, "unmanaged": 0}
    for name, size in measured.items():
        (sample,) = families[f"weft_job_device_memory_{name}"].samples
        assert (sample.labels["job"], sample.value) == (job_id, size)
    assert [sample.value for sample in families["weft_job_device_memory_limit_bytes"].samples] == [1 << 30]


def test_going_down_ends_what_runs_if_that_is_asked_for(weft: Served) -> None:
    first = submitted(weft, gpus=2)
    second = submitted(weft)
    assert weft.ask("POST", "/v1/shutdown", {"stop_jobs": True}) == (200, {"ids": [first], "within_s": PATIENCE_S})
    assert weft.ask("GET", f"/v1/jobs/{first}")[1]["state"] == "RUNNING"
    assert not weft.service.leaving.is_set(), "it waits for the end of those it has stopped"
    weft.tell(AttemptReport(first, 1, "ended", {"exit_code": 143}))
    wait_until(weft.service.leaving.is_set, "it leaves")
    assert weft.ask("GET", f"/v1/jobs/{first}")[1]["reason"] == "ended by weft down --stop-jobs"
    assert weft.ask("GET", f"/v1/jobs/{second}")[1]["state"] == "PENDING"


def test_going_down_leaves_those_that_run_alone_but_sees_to_the_end_of_one_just_cancelled(weft: Served) -> None:
    first, second = submitted(weft), submitted(weft)
    weft.ask("POST", f"/v1/jobs/{first}/cancel")
    assert weft.ask("POST", "/v1/shutdown", {}) == (200, {"ids": [], "within_s": PATIENCE_S})
    assert not weft.service.leaving.is_set()
    weft.tell(AttemptReport(first, 1, "ended", {"exit_code": 143}))
    wait_until(weft.service.leaving.is_set, "it leaves")
    assert weft.ask("GET", f"/v1/jobs/{second}")[1]["state"] == "RUNNING"


def test_going_down_with_nobody_to_wait_for_is_done_at_once(weft: Served) -> None:
    submitted(weft)
    assert weft.ask("POST", "/v1/shutdown", {}) == (200, {"ids": [], "within_s": 0.0})
    wait_until(weft.service.leaving.is_set, "it leaves")


def test_going_down_does_not_wait_for_ever_for_one_that_does_not_end(weft: Served) -> None:
    weft.service._patience_s = 0.01
    job_id = submitted(weft)
    weft.ask("POST", "/v1/shutdown", {"stop_jobs": True})
    wait_until(weft.service.leaving.is_set, "it leaves")
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["state"] == "RUNNING"


def test_a_running_job_that_is_cancelled_says_so_until_its_processes_are_gone(weft: Served) -> None:
    job_id = submitted(weft)
    weft.tell(AttemptReport(job_id, 1, "started", {"pids": [7]}))
    assert weft.ask("POST", f"/v1/jobs/{job_id}/cancel") == (200, {"ids": [job_id]})
    job = weft.ask("GET", f"/v1/jobs/{job_id}")[1]
    assert (job["state"], job["reason"]) == ("RUNNING", "cancelled; its processes are being stopped")
    assert (job["devices"], job["pids"], job["finished_at"]) == (["here:0"], [7], None)
    (node,) = weft.ask("GET", "/v1/nodes")[1]["nodes"]
    assert [device["state"] for device in node["devices"]] == ["busy", "free"]
    why = weft.ask("GET", f"/v1/jobs/{job_id}/why")[1]
    assert why["text"][0] == f"{job_id} is RUNNING: cancelled; its processes are being stopped"
    assert [(one["what"], one["reason"]) for one in why["decisions"]] == [("Start", "starts on 1 of 2 free devices")]
    assert why["estimate"]["how"] == "it is being ended"
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 143}))
    job = weft.ask("GET", f"/v1/jobs/{job_id}")[1]
    assert (job["state"], job["reason"], job["exit_code"]) == ("CANCELLED", "cancelled", None)
    events = weft.ask("GET", f"/v1/jobs/{job_id}/history")[1]["events"]
    assert [event["what"] for event in events] == ["Submitted", "Start", "Reported", "Stopping", "Reported", "Ended"]
    assert events[3]["text"] == "cancelled; its processes are being stopped"


def test_there_is_a_page_for_people_and_one_for_programs(weft: Served) -> None:
    assert "<html" in weft.ask("GET", "/v1/docs")[1].lower()
    assert weft.ask("GET", "/v1/openapi.json")[1]["info"]["title"] == "weft"


def test_looking_while_others_change_everything_never_fails(weft: Served) -> None:
    """Jobs come and go in every instant; who looks sees each of them whole, or not at all."""
    over = threading.Event()
    seen: list[tuple[str, int]] = []

    def look() -> None:
        while not over.is_set():
            for path in ("/v1/jobs?all=true&limit=20", "/v1/jobs/3", "/v1/jobs/9", "/v1/jobs/9/why", "/v1/nodes"):
                status, _ = weft.ask("GET", path)
                seen.append((path, status))

    watchers = [threading.Thread(target=look) for _ in range(2)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(40):
            job_id = submitted(weft)
            weft.ask("POST", f"/v1/jobs/{job_id}/cancel")
            weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": 143}))
    finally:
        over.set()
        for watcher in watchers:
            watcher.join()
    assert {status for _, status in seen} <= {200, 404}
