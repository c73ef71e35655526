"""An event that makes no sense is refused, and nothing has changed."""

from __future__ import annotations

import pytest
from core_helpers import Make, picture, running, submitted

from weft.core.errors import IllegalEventError, InputError
from weft.core.events import Cancelled, Event, Finished, Held, NodeJoined, NodeLost, Released
from weft.core.scheduler import Scheduler
from weft.core.values import Node

ILLEGAL: dict[str, tuple[Event, str]] = {
    "submitted twice": (submitted("runs"), "runs was submitted before and is still live"),
    "held while running": (Held("runs"), "Held does not fit Job(runs: running"),
    "released while running": (Released("runs"), "Released does not fit Job(runs: running"),
    "finished before it started": (
        Finished("waits", 0),
        "Finished names an attempt that was never made: Job(waits",
    ),
    "held but unknown": (Held("nobody"), "Held names nobody, which is not a live job"),
    "released but unknown": (Released("nobody"), "Released names nobody, which is not a live job"),
    "an unknown node lost": (NodeLost("n7"), "node n7 was lost but was not there"),
    "a node there already": (NodeJoined(Node("n0", 1)), "node n0 joined but was there already"),
}


def one_runs_one_waits(make: Make) -> Scheduler:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("runs"), submitted("waits")], 0.0)
    return scheduler


@pytest.mark.parametrize("case", ILLEGAL)
def test_an_illegal_event_raises_and_changes_nothing(make: Make, case: str) -> None:
    event, message = ILLEGAL[case]
    scheduler = one_runs_one_waits(make)
    before = picture(scheduler.ledger)
    with pytest.raises(IllegalEventError) as caught:
        scheduler.handle([event], 1.0)
    assert message in str(caught.value)
    assert picture(scheduler.ledger) == before


def test_what_was_recorded_before_an_illegal_event_is_decided_on_by_the_next_call(make: Make) -> None:
    scheduler = one_runs_one_waits(make)
    with pytest.raises(IllegalEventError):
        scheduler.handle([Finished("runs", 1), Held("nobody")], 1.0)
    scheduler.handle([], 2.0)
    assert running(scheduler) == {"waits"}


def test_a_stop_that_was_not_handed_out_for_an_illegal_event_comes_with_the_next_call(make: Make) -> None:
    scheduler = one_runs_one_waits(make)
    with pytest.raises(IllegalEventError):
        scheduler.handle([Cancelled("runs"), Held("nobody")], 1.0)
    assert [type(command).__name__ for command in scheduler.handle([], 1.0)] == ["Stop", "Start"]


def test_a_job_that_is_not_live_has_no_reason(make: Make) -> None:
    with pytest.raises(InputError, match="no live job is called nobody"):
        make("fifo", 1).reason("nobody", 0.0)
