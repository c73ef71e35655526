"""Pages of jobs: complete, each job once, with a total; and what is read does not wait for what is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from office import MACHINE, devices
from rest import Served, served

from weft.control.loop.inputs import AttemptReport, NodeConnected
from weft.control.store.log_store import Batch, LogStore


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as here:
        here.tell(NodeConnected(MACHINE, devices(2)))
        yield here


def submit(weft: Served, **asked: Any) -> list[str]:
    status, answer = weft.ask("POST", "/v1/jobs", {"command": ["true"], "env": {}, **asked})
    assert status == 201, answer
    ids: list[str] = answer["ids"]
    return ids


def page(weft: Served, query: str) -> tuple[list[str], int, str | None]:
    status, answer = weft.ask("GET", query)
    assert status == 200, answer
    return [job["id"] for job in answer["jobs"]], answer["total"], answer["next_cursor"]


def test_pages_follow_each_other_in_the_order_of_ids(weft: Served) -> None:
    submit(weft), submit(weft, array="1-12"), submit(weft)
    assert page(weft, "/v1/jobs?limit=3") == (["1", "2_1", "2_2"], 14, "2_2")
    assert page(weft, "/v1/jobs?limit=9&cursor=2_2") == ([f"2_{at}" for at in range(3, 12)], 14, "2_11")
    assert page(weft, "/v1/jobs?limit=9&cursor=2_11") == (["2_12", "3"], 14, None)
    assert page(weft, "/v1/jobs?limit=2&cursor=2_11") == (["2_12", "3"], 14, None)


def test_jobs_that_come_and_go_between_two_pages_move_no_other(weft: Served) -> None:
    submit(weft, array="1-6")
    assert page(weft, "/v1/jobs?limit=3")[2] == "1_3"
    weft.ask("POST", "/v1/jobs/1_3/cancel"), weft.ask("POST", "/v1/jobs/1_4/cancel"), submit(weft)
    assert page(weft, "/v1/jobs?limit=3&cursor=1_3") == (["1_5", "1_6", "2"], 5, None)
    assert page(weft, "/v1/jobs?limit=3&cursor=1_3&all=true") == (["1_4", "1_5", "1_6"], 7, "1_6")


def test_live_and_ended_jobs_stand_among_each_other(weft: Served) -> None:
    submit(weft, array="1-4", hold=True), submit(weft)
    weft.ask("POST", "/v1/jobs/1_2/cancel")
    assert page(weft, "/v1/jobs?all=true") == (["1_1", "1_2", "1_3", "1_4", "2"], 5, None)
    assert page(weft, "/v1/jobs?all=true&limit=2") == (["1_1", "1_2"], 5, "1_2")
    assert page(weft, "/v1/jobs?state=CANCELLED") == (["1_2"], 1, None)


def test_filters_count_what_they_leave(weft: Served) -> None:
    submit(weft, array="1-5", name="a", tenant="vision"), submit(weft, array="1-3", name="b")
    assert page(weft, "/v1/jobs?name=a&limit=2") == (["1_1", "1_2"], 5, "1_2")
    assert page(weft, "/v1/jobs?tenant=vision&state=PENDING") == (["1_3", "1_4", "1_5"], 3, None)
    assert page(weft, "/v1/jobs?state=RUNNING") == (["1_1", "1_2"], 2, None)
    assert page(weft, "/v1/jobs?prefix=2") == (["2_1", "2_2", "2_3"], 3, None)
    weft.ask("POST", "/v1/jobs/2_2/cancel")
    assert page(weft, "/v1/jobs?prefix=2_2&all=true&name=b") == (["2_2"], 1, None)


def test_history_goes_back_page_by_page_through_one_instant(weft: Served) -> None:
    submit(weft, array="1-5", hold=True), submit(weft)
    weft.tell(AttemptReport("2", 1, "ended", {"exit_code": 0}))
    weft.ask("POST", "/v1/jobs/1/cancel")  # five in one instant
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        ids, total, cursor = page(weft, f"/v1/history?limit=2{f'&cursor={cursor}' if cursor else ''}")
        assert total == 6
        found += ids
    assert sorted(found[:5]) == [f"1_{at}" for at in range(1, 6)]
    assert found[5:] == ["2"]
    assert weft.ask("GET", "/v1/history?cursor=7")[0] == 404


def test_what_is_asked_of_health_does_not_wait_for_the_disk(weft: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows what was on disk before; a listing waits, for it may not show what is not."""
    submit(weft, hold=True)
    is_writing, may_go_on = threading.Event(), threading.Event()
    commit = LogStore.commit

    def slow(self: LogStore, batch: Batch) -> int:
        is_writing.set()
        assert may_go_on.wait(30)
        return commit(self, batch)

    monkeypatch.setattr(LogStore, "commit", slow)
    submitting = threading.Thread(target=submit, args=(weft,), kwargs={"hold": True})
    listed: list[int] = []
    listing = threading.Thread(target=lambda: listed.append(page(weft, "/v1/jobs")[1]))
    submitting.start()
    try:
        assert is_writing.wait(30)
        assert weft.ask("GET", "/v1/health")[1]["jobs"] == {"PENDING": 1}
        listing.start()
        assert weft.ask("GET", "/v1/history")[1]["total"] == 0
        assert listed == []
    finally:
        may_go_on.set()
        submitting.join()
        listing.join()
    assert listed == [2]
    assert weft.ask("GET", "/v1/health")[1]["jobs"] == {"PENDING": 2}


def test_an_array_after_an_array_is_cancelled_or_released_as_one(weft: Served) -> None:
    submit(weft, array="1-2"), submit(weft, array="1-30", after=["1", "1", "1_2"]), submit(weft, after=["1_1"])
    job = weft.ask("GET", "/v1/jobs/2_30")[1]
    assert job["reason"] == "starts once 1_1, 1_2 has succeeded"
    weft.tell(AttemptReport("1_1", 1, "ended", {"exit_code": 0}))
    assert page(weft, "/v1/jobs?state=RUNNING")[0] == ["1_2", "3"]
    weft.tell(AttemptReport("1_2", 1, "ended", {"exit_code": 1}))
    assert page(weft, "/v1/jobs?state=CANCELLED")[1] == 30
