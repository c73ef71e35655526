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
    "released while running": (Released("runs"), "Released does not fit Job(runs: running"),
    "finished before it started": (
        Finished("waits", 0),
        "Finished names a lease that was never given: Job(waits",
    ),
    "an unknown node lost": (NodeLost("n7"), "NodeLost names n7, a node that is not there"),
    "a node there already": (NodeJoined(Node("n0", 1)), "node n0 joined but is already present"),
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


def test_the_others_of_an_instant_with_an_illegal_event_are_decided_on_by_the_next_call(make: Make) -> None:
    scheduler = one_runs_one_waits(make)
    with pytest.raises(IllegalEventError):
        scheduler.handle([submitted("waits"), submitted("comes"), Finished("runs", 1)], 1.0)
    scheduler.handle([], 2.0)
    assert running(scheduler) == {"waits"}
    assert "comes" in scheduler.ledger.jobs


@pytest.mark.parametrize("late", [Held("over"), Released("over"), Cancelled("over"), Finished("over", 3)])
def test_a_word_about_a_job_that_is_over_is_too_late_and_is_dropped(make: Make, late: Event) -> None:
    scheduler = one_runs_one_waits(make)
    before = picture(scheduler.ledger)
    assert scheduler.handle([late], 1.0) == []
    assert picture(scheduler.ledger) == before


def test_time_does_not_run_backwards(make: Make) -> None:
    scheduler = one_runs_one_waits(make)
    scheduler.handle([], 10.0)
    with pytest.raises(IllegalEventError, match="it is 10 s already, and something happens at 5 s"):
        scheduler.handle([], 5.0)


def test_a_stop_that_was_not_handed_out_for_an_illegal_event_comes_with_the_next_call(make: Make) -> None:
    scheduler = one_runs_one_waits(make)
    with pytest.raises(IllegalEventError):
        scheduler.handle([Cancelled("runs"), submitted("waits")], 1.0)
    assert [type(command).__name__ for command in scheduler.handle([], 1.0)] == ["Stop", "Start"]


def test_a_job_that_is_not_live_has_no_reason(make: Make) -> None:
    with pytest.raises(InputError, match="no live job is called nobody"):
        make("fifo", 1).reason("nobody", 0.0)
