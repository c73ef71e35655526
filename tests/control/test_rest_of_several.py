"""REST of several jobs at once: waiting, summaries of arrays, ids; and the verbs of owners."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from office import MACHINE, devices
from rest import Served, served

from waiting import wait_until
from weft.control.loop.inputs import AttemptReport, NodeConnected


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as here:
        here.tell(NodeConnected(MACHINE, devices(2)))
        yield here


def submitted(weft: Served, **asked: Any) -> str:
    status, answer = weft.ask("POST", "/v1/jobs", {"command": ["true"], "env": {}, **asked})
    assert status == 201, answer
    return str(answer["id"])


def ended(weft: Served, job_id: str, exit_code: int = 0) -> None:
    weft.tell(AttemptReport(job_id, 1, "started", {"pids": [7]}))
    weft.tell(AttemptReport(job_id, 1, "ended", {"exit_code": exit_code, "message": ""}))


def test_waiting_for_several_ends_with_the_last_or_with_the_first(weft: Served) -> None:
    one, array = submitted(weft), submitted(weft, array="1-2%1")
    target = f"/v1/wait?id={one}&id={array}&timeout_s="
    status, answer = weft.ask("GET", f"{target}0")
    assert (status, answer["is_over"], answer["jobs"]) == (200, False, 3)
    assert answer["states"] == {"PENDING": 1, "RUNNING": 2}
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.append(weft.ask("GET", f"{target}60&any=true")[1]))
    waiting.start()
    ended(weft, f"{array}_1", exit_code=4)
    waiting.join(60)
    assert (found[0]["is_over"], found[0]["first"]["id"], found[0]["first"]["exit_code"]) == (True, f"{array}_1", 4)
    ended(weft, one)
    wait_until(lambda: weft.ask("GET", f"/v1/jobs/{array}_2")[1]["state"] == "RUNNING")
    ended(weft, f"{array}_2")
    status, answer = weft.ask("GET", f"{target}60")
    assert (answer["is_over"], answer["states"]) == (True, {"SUCCEEDED": 2, "FAILED": 1})
    assert (answer["unsuccessful"], answer["first"]["id"]) == ([array], f"{array}_1")


def test_an_array_is_summed_up_by_state_and_reason(weft: Served) -> None:
    array = submitted(weft, array="1-500%3", name="sweep")
    ended(weft, f"{array}_1", exit_code=2)
    status, answer = weft.ask("GET", f"/v1/arrays/{array}")
    assert status == 200
    assert (answer["id"], answer["name"], answer["elements"]) == (array, "sweep", 500)
    assert answer["states"] == {"PENDING": 497, "RUNNING": 2, "FAILED": 1}
    groups = {group["reason"]: group["jobs"] for group in answer["groups"] if group["state"] != "RUNNING"}
    assert groups["its array runs at most 3 at once"] == 496
    assert groups["ended with exit code 2"] == 1
    assert sum(group["jobs"] for group in answer["groups"]) == 500
    assert answer["finished_at"] is None


def test_those_far_behind_are_one_group(weft: Served) -> None:
    array = submitted(weft, array="1-100")
    groups = weft.ask("GET", f"/v1/arrays/{array}")[1]["groups"]
    assert len(groups) < 10
    assert max(group["jobs"] for group in groups if "waits behind other jobs" in group["reason"]) == 78


def test_more_reasons_than_anybody_reads_are_counted_together(weft: Served) -> None:
    array = submitted(weft, array="1-30%1")
    for index in range(1, 30):
        ended(weft, f"{array}_{index}", exit_code=index)
    groups = weft.ask("GET", f"/v1/arrays/{array}")[1]["groups"]
    assert len(groups) <= 22
    assert sum(group["jobs"] for group in groups) == 30
    assert [group["first"] for group in groups if group["reason"] == "for other reasons"] == [None]


def test_an_array_asked_for_as_a_job_says_that_it_is_one(weft: Served) -> None:
    array, one = submitted(weft, array="1-2"), submitted(weft)
    status, answer = weft.ask("GET", f"/v1/jobs/{array}")
    assert (status, answer["array"]) == (404, True)
    status, answer = weft.ask("GET", f"/v1/arrays/{one}")
    assert (status, "is not an array" in answer["error"]) == (404, True)


def test_ids_are_those_of_all_jobs_that_are_meant(weft: Served) -> None:
    array, one = submitted(weft, array="1-3"), submitted(weft)
    status, answer = weft.ask("GET", f"/v1/ids?id={one}&id={array}&id={array}_2")
    assert (status, answer["ids"]) == (200, [one, f"{array}_1", f"{array}_2", f"{array}_3"])


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/v1/wait", 422),
        ("/v1/wait?id=x", 422),
        ("/v1/wait?id=1;2", 422),
        ("/v1/wait?id=99", 404),
        ("/v1/wait?id=1&timeout_s=nan", 422),
        ("/v1/wait?" + "&".join(["id=1"] * 1001), 422),
        ("/v1/ids?id=99_1", 404),
        ("/v1/ids?id=-1", 422),
        ("/v1/arrays/99", 404),
        ("/v1/arrays/1_1", 422),
        ("/v1/arrays/999999999999999999999", 422),
        ("/v1/jobs/1/logs?tail=-1", 422),
    ],
)
def test_what_makes_no_sense_is_refused(weft: Served, target: str, code: int) -> None:
    status, answer = weft.ask("GET", target)
    assert (status, bool(answer["error"])) == (code, True)


def test_a_job_is_paused_resumed_and_run_again(weft: Served) -> None:
    job_id = submitted(weft)
    assert weft.ask("POST", f"/v1/jobs/{job_id}/pause") == (200, {"ids": [job_id]})
    assert weft.ask("GET", f"/v1/jobs/{job_id}")[1]["reason"] == "paused by its owner"
    assert weft.ask("POST", f"/v1/jobs/{job_id}/rerun")[0] == 409
    assert weft.ask("POST", f"/v1/jobs/{job_id}/resume") == (200, {"ids": [job_id]})
    ended(weft, job_id)
    body = {"request_id": "r"}
    status, answer = weft.ask("POST", f"/v1/jobs/{job_id}/rerun", body)
    assert (status, answer["id"] != job_id) == (201, True)
    assert weft.ask("POST", f"/v1/jobs/{job_id}/rerun", body)[1] == answer
    assert weft.ask("POST", f"/v1/jobs/{job_id}/pause")[0] == 409
    assert weft.ask("POST", "/v1/jobs/99/pause")[0] == 404
