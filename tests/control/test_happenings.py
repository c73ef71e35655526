"""A job's log, in words."""

from __future__ import annotations

import json
from typing import Any

from weft.control.api.explain import decided_in_words, events, preemptions


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


def test_a_job_without_steps_is_said_to_be_stopped_and_not_to_be_at_step_0() -> None:
    paused = {"what": "paused", "depth": "gate", "waited_s": 3.0}
    rows = [row("Reported", **paused, step=7, how="boundary"), row("Reported", **paused, step=0, how="stopped")]
    assert [event["text"] for event in events(rows)] == [
        "paused at step 7, 3000 ms after it was asked to",
        "stopped where it was (no step boundary came), 3000 ms after it was asked to",
    ]
    preempted = row("Preempt", reason=["preempted-for", "2"])
    lines = [decided_in_words([], preemptions([preempted, report]))[0].partition("; ")[2] for report in rows]
    assert lines == [
        "paused at step 7 (depth gate) after 3000 ms",
        "stopped where it was (no step boundary came) after 3000 ms",
    ]
