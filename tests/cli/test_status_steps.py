"""What `weft status` says of a job in which no step is seen."""

from __future__ import annotations

from typing import Any

import pytest

from weft.cli.verbs.job_details import _lines

NONE_SEEN = "none seen yet; a pause stops the processes immediately"


def steps_of(state: str, steps: int | None) -> str | None:
    names = ("id", "name", "exit_code", "attempt", "submitted_at", "started_at", "finished_at", "step_rate_hz")
    job: dict[str, Any] = dict.fromkeys(names)
    job |= {"state": state, "steps": steps, "tenant": "default", "class": "auto", "command": ["true"], "cwd": "/"}
    job |= {"reason": "", "devices": [], "id": "7"}
    return dict(_lines(job)).get("steps")


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
def test_a_live_job_without_steps_is_said_to_have_none(state: str) -> None:
    assert steps_of(state, 0) == NONE_SEEN
    assert steps_of(state, None) == NONE_SEEN
    assert str(steps_of(state, 3)) == "3"


@pytest.mark.parametrize("state", ["PENDING", "SUCCEEDED", "FAILED"])
def test_of_a_job_that_does_not_run_nothing_is_said(state: str) -> None:
    assert steps_of(state, 0) is None
