"""A job's log, in words."""

from __future__ import annotations

import json
from typing import Any

from weft.control.happenings import events


def row(kind: str, **body: Any) -> dict[str, Any]:
    return {"at": 0.0, "kind": kind, "body": json.dumps(body)}


def test_an_attempt_begins_once_and_is_adopted_by_each_coordinator_that_comes_after() -> None:
    started = row("Reported", what="started", attempt=1, pids=[7])
    again = row("Reported", what="started", attempt=2, pids=[9])
    assert [event["text"] for event in events([started, started, again, again])] == [
        "attempt 1 began as process 7",
        "found by a new coordinator, and adopted",
        "attempt 2 began as process 9",
        "found by a new coordinator, and adopted",
    ]


def test_how_a_job_ended_is_said_once() -> None:
    ended = [row("Ended", state="CANCELLED", reason="cancelled"), row("Ended", state="FAILED", reason="exit code 3")]
    assert [event["text"] for event in events(ended)] == ["cancelled", "failed: exit code 3"]
