"""How an attempt ended, from how its tasks did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.core.value import value
from weft.node.records import Status
from weft.runtime.page.layout import LEFT_EXIT_CODE

STOPPED_BEFORE = 128 + 15  # as if the signal that was meant for it had come


@value
class Ending:
    """What is reported of it."""

    what: str
    body: dict[str, Any]


def never_started() -> Ending:
    return Ending("ended", {"exit_code": STOPPED_BEFORE, "message": "stopped before its command was started"})


def ending(
    statuses: Sequence[Status | None],
    why_lost: str,
    left_at_step: int | None,
    waited_s: float,
    *,
    is_stop_wanted: bool,
    job: str = "ID",
) -> Ending:
    """A gang ends as the first of its ranks that ended badly. Where a status is missing, none is made up."""
    known = [status for status in statuses if status]
    if is_stop_wanted and not known and not why_lost:
        return never_started()
    ended_badly = [(rank, each) for rank, each in enumerate(statuses) if each and each.exit_code]
    # A rank that failed before the others began keeps them from beginning; then the failure is what happened.
    if why_lost or (len(known) < len(statuses) and not is_stop_wanted and not ended_badly):
        return Ending("lost", {"message": why_lost or "it could not be started"})
    if left_at_step is not None and not is_stop_wanted and all(each.exit_code in (0, LEFT_EXIT_CODE) for each in known):
        return Ending("left", {"step": left_at_step, "waited_s": waited_s})
    if not ended_badly:
        return Ending("ended", {"exit_code": 0, "message": ""})
    rank, bad = min(ended_badly, key=lambda one: one[1].at_s)
    if len(statuses) == 1:
        return Ending("ended", {"exit_code": bad.exit_code, "message": bad.message})
    how = bad.message or f"ended with exit code {bad.exit_code}"
    return Ending("ended", {"exit_code": bad.exit_code, "message": f"rank {rank} {how}: weft logs --task {rank} {job}"})
