"""Attempts end: well, badly, late, or because somebody cancelled the job."""

from __future__ import annotations

import pytest
from core_helpers import Make, Script, eviction, grant, picture, running, started, stopped, submitted

from weft.core.commands import Stop
from weft.core.events import Cancelled, Failed, Finished, Held
from weft.core.plan import Plan


@pytest.mark.parametrize("ending", [Finished, Failed])
def test_an_attempt_that_ends_frees_its_devices_and_is_forgotten(make: Make, ending: type) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2), submitted("b", 2)], 0.0)
    assert set(started(scheduler.handle([ending("a", 1)], 4.0))) == {"b"}
    assert set(scheduler.ledger.jobs) == {"b"}


@pytest.mark.parametrize("ending", [Finished, Failed])
def test_a_late_word_of_an_older_attempt_is_dropped(make: Make, ending: type) -> None:
    policy = Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")]), Plan([grant("a", (0, 1))]))
    scheduler = make(policy, 1)
    for now in (0.0, 1.0, 2.0):
        scheduler.handle([submitted("a")] if now == 0.0 else [], now)
    assert scheduler.ledger.jobs["a"].generation == 2
    before = picture(scheduler.ledger)
    assert scheduler.handle([ending("a", 1)], 3.0) == []
    assert picture(scheduler.ledger) == before


def test_a_word_of_a_job_that_is_over_is_dropped(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([Finished("a", 1)], 1.0)
    assert scheduler.handle([Finished("a", 1), Failed("a", 1)], 1.0) == []
    assert scheduler.handle([Finished("nobody", 7)], 1.0) == []


def test_cancelling_a_running_job_stops_its_attempt_and_frees_its_devices(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2), submitted("b")], 0.0)
    commands = scheduler.handle([Cancelled("a")], 1.0)
    assert commands[0] == Stop("a", 1)
    assert set(started(commands)) == {"b"}
    assert "a" not in scheduler.ledger.jobs


def test_the_stop_is_commanded_once(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a")], 0.0)
    assert stopped(scheduler.handle([Cancelled("a")], 1.0)) == [("a", 1)]
    assert scheduler.handle([], 2.0) == []


def test_cancelling_a_waiting_or_held_job_stops_nothing(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b"), submitted("c")], 0.0)
    scheduler.handle([Held("c")], 1.0)
    assert scheduler.handle([Cancelled("b"), Cancelled("c")], 2.0) == []
    assert running(scheduler) == {"a"}
    assert set(scheduler.ledger.jobs) == {"a"}


def test_cancelling_the_head_of_a_strict_line_lets_the_next_one_start(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a"), submitted("b", 2), submitted("c")], 0.0)
    assert set(started(scheduler.handle([Cancelled("b")], 1.0))) == {"c"}


def test_a_job_that_is_cancelled_as_it_finishes_was_cancelled_too_late(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    assert stopped(scheduler.handle([Cancelled("a"), Finished("a", 1)], 1.0)) == []
    assert not scheduler.ledger.jobs


def test_a_job_submitted_and_cancelled_at_one_instant_never_starts(make: Make) -> None:
    scheduler = make("fifo", 1)
    assert scheduler.handle([submitted("a"), Cancelled("a")], 0.0) == []
    assert not scheduler.ledger.jobs


def test_an_attempt_that_ends_before_it_hears_of_its_preemption_has_ended_the_job(make: Make) -> None:
    scheduler = make("srtf", 1)
    scheduler.handle([submitted("long", declared_steps=100.0)], 0.0)
    scheduler.handle([submitted("short", declared_steps=1.0)], 1.0)
    assert scheduler.ledger.jobs["long"].is_waiting
    assert scheduler.handle([Finished("long", 1)], 1.5) == []
    assert list(scheduler.ledger.jobs) == ["short"]
