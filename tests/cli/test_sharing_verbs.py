"""What is said about sharing on the command line, to a daemon that is only a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from standin import StandIn

from weft.cli.job_options import request_from_options
from weft.cli.main import weft as command
from weft.system.home import Home

SAID = {
    "gpus": None,
    "no_requeue": False,
    "no_share": False,
    "no_migrate": False,
    "hold": False,
}
JOB: dict[str, Any] = {
    "id": "18", "name": "train", "tenant": "vision", "class": "auto", "state": "RUNNING", "reason": "", "run_s": 61.0,
    "exit_code": None, "attempt": 1, "command": ["true"], "cwd": "/", "devices": ["here:0"], "steps": 40,
    "step_rate_hz": 3.5, "submitted_at": "2026-01-01T00:00:00+00:00", "started_at": None, "finished_at": None,
    "guest": True, "beside": ["17"], "lane": 1, "interference_ratio": 0.8, "unseats": 2, "share": True,
    "migrate": False,
}  # fmt: skip
EVENTS = [
    {"at": "2026-01-01T00:00:00+00:00", "what": "Submitted", "text": "submitted"},
    {"at": "2026-01-01T00:00:01+00:00", "what": "Seat", "text": "packed with 17, to be measured"},
    {"at": "2026-01-01T00:01:01+00:00", "what": "Noted", "text": "packed with 17: +31%, kept"},
]
ANSWERS: dict[str, Any] = {
    "/v1/jobs?all=false&limit=100": {"jobs": [JOB], "total": 1, "next_cursor": None},
    "/v1/jobs/18": JOB,
    "/v1/jobs/18/history": {"events": EVENTS},
}


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    home = Home(tmp_path / "home")
    home.make()
    monkeypatch.setenv("WEFT_HOME", str(home.root))
    monkeypatch.setenv("TZ", "UTC")
    server = StandIn(home.socket, lambda method, target, body: (200, ANSWERS[target]))
    yield server
    server.close()
    home.run.rmdir()


def says(*words: str) -> list[str]:
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_a_job_shares_and_migrates_unless_it_says_no() -> None:
    assert not request_from_options(("true",), **SAID).keys() & {"share", "migrate", "requeue", "hold"}
    refusing = request_from_options(("true",), **{**SAID, "no_share": True, "no_migrate": True})
    assert (refusing["share"], refusing["migrate"]) == (False, False)


@pytest.mark.usefixtures("daemon")
def test_the_queue_marks_who_computes_beside_whom() -> None:
    assert says("queue")[1].endswith("guest beside 17")


@pytest.mark.usefixtures("daemon")
def test_the_status_tells_what_company_costs() -> None:
    lines = says("status", "18")
    assert "sharing:    guest beside 17, lane 1, at 80% of its rate alone" in lines
    assert "unseated:   2 times; weft history 18" in lines
    assert "may not:    migrate" in lines


@pytest.mark.usefixtures("daemon")
def test_the_history_of_one_job_is_all_that_happened_to_it_in_order() -> None:
    lines = says("history", "18")
    assert [line.split("  ", 1)[1] for line in lines] == [event["text"] for event in EVENTS]
    assert all(line.startswith("20") for line in lines)
    assert says("history", "18", "--json")[0] == "["
