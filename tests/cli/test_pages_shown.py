"""Long queues on the command line: nothing is left out without a word, and programs get all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result
from standin import StandIn
from test_sharing_verbs import JOB as ONE

from weft import Client
from weft.cli.main import weft as command
from weft.system.home import Home

JOB = {**ONE, "wait_s": 1.0, "preemptions": 0}
QUEUED = [{**JOB, "id": str(number), "state": "PENDING"} for number in range(1, 2_501)]
RUNNING = {**JOB, "id": "2400", "state": "RUNNING"}
QUEUED[2_399] = RUNNING


def answer(method: str, target: str, body: Any) -> tuple[int, Any]:
    """As a daemon does, with pages of 1,000."""
    parts = urlsplit(target)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    jobs = QUEUED[::-1] if parts.path == "/v1/history" else QUEUED
    jobs = [job for job in jobs if asked.get("state") in (None, job["state"])]
    jobs = [job for job in jobs if job["id"].startswith(asked.get("prefix", ""))]
    begin = 1 + [job["id"] for job in jobs].index(asked["cursor"]) if "cursor" in asked else 0
    end = begin + int(asked.get("limit", 1_000))
    return 200, {
        "jobs": jobs[begin:end],
        "total": len(jobs),
        "next_cursor": jobs[end - 1]["id"] if end < len(jobs) else None,
    }


@pytest.fixture(autouse=True)
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    home = Home(tmp_path / "home")
    home.make()
    monkeypatch.setenv("WEFT_HOME", str(home.root))
    server = StandIn(home.socket, answer)
    yield server
    server.close()
    home.run.rmdir()


def says(*words: str) -> Result:
    done = CliRunner().invoke(command, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def test_a_table_shows_the_first_of_many_and_says_how_many_more_there_are() -> None:
    done = says("queue")
    assert len(done.stdout.splitlines()) == 101
    assert done.stderr == "and 2,400 more; weft queue --limit 0 lists all; --state, --name and --tenant list some\n"


def test_jobs_that_run_are_among_the_first() -> None:
    assert says("queue", "--limit", "5").stdout.splitlines()[1].split()[:4] == ["2400", "train", "vision", "R"]


@pytest.mark.parametrize(("words", "count"), [((), 2_500), (("--limit", "1500"), 1_500), (("--limit", "10"), 10)])
def test_programs_get_all_unless_they_want_less(words: tuple[str, ...], count: int) -> None:
    assert len(json.loads(says("queue", "--json", *words).stdout)) == count
    done = says("queue", "--parsable", *words)
    assert len(done.stdout.split()) == count
    assert ("more" in done.stderr) == (count < 2_500)


def test_a_filter_counts_only_what_it_leaves() -> None:
    done = says("queue", "--state", "running")
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == ""


def test_history_says_how_many_more_there_are() -> None:
    assert says("history").stderr == "and 2,450 more; weft history --limit 2500 lists all\n"
    assert len(json.loads(says("history", "--limit", "2200", "--json").stdout)) == 2_200
    assert says("history", "--limit", "9999").stderr == ""


def test_the_client_goes_through_all_pages() -> None:
    with Client() as client:
        assert [job["id"] for job in client.queue()] == [job["id"] for job in QUEUED]
        assert next(client.jobs(state="RUNNING")) == RUNNING
        assert len(client.history()) == 2_500
        assert len(client.history(limit=1_200)) == 1_200
        assert client.page(limit=2)["next_cursor"] == "2"


def test_completion_asks_only_for_ids_that_can_be_meant(daemon: StandIn) -> None:
    shell = ShellComplete(command, {}, "weft", "_WEFT_COMPLETE")
    offered = [item.value for item in shell.get_completions(["status"], "249")]
    assert offered == ["249", *(str(number) for number in range(2_490, 2_500))]
    assert len(daemon.asked) == 1
