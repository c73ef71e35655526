"""A hold is its owner's wish that a waiting job should not start yet."""

from __future__ import annotations

import pytest
from core_helpers import Make, running, started, submitted

from weft.core.events import Cancelled, Finished, Held, Released
from weft.core.transitions import State
from weft.policies.registry import POLICIES


@pytest.mark.parametrize("name", POLICIES)
def test_a_held_job_does_not_start_until_it_is_released(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=9.0, min_run_s=9.0)], 0.0)
    scheduler.handle([submitted("b", declared_steps=9.0)], 1.0)
    scheduler.handle([Held("b")], 2.0)
    assert str(scheduler.reason("b", 2.0)) == "held by its owner"
    assert not started(scheduler.handle([Finished("a", 1)], 9.0))
    assert set(started(scheduler.handle([Released("b")], 10.0))) == {"b"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_held_as_it_is_submitted_does_not_start(make: Make, name: str) -> None:
    scheduler = make(name, 2)
    assert not started(scheduler.handle([submitted("a", declared_steps=9.0), Held("a")], 0.0))
    assert set(started(scheduler.handle([Released("a")], 1.0))) == {"a"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_hold_taken_back_within_one_batch_leaves_one_job_that_starts_once(make: Make, name: str) -> None:
    scheduler = make(name, 2)
    commands = scheduler.handle([submitted("a", declared_steps=9.0), Held("a"), Released("a")], 0.0)
    assert list(started(commands)) == ["a"]
    assert scheduler.ledger.devices_held == 1


def test_holding_the_head_of_a_strict_line_lets_the_next_one_pass(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a"), submitted("b", 2), submitted("c")], 0.0)
    assert set(started(scheduler.handle([Held("b")], 1.0))) == {"c"}


def test_a_released_job_has_kept_its_place_in_the_line(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b"), submitted("c")], 0.0)
    scheduler.handle([Held("b")], 1.0)
    scheduler.handle([Released("b")], 2.0)
    scheduler.handle([Finished("a", 1)], 3.0)
    assert running(scheduler) == {"b"}


def test_repeating_a_hold_or_a_release_changes_nothing(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    scheduler.handle([Held("b"), Held("b")], 1.0)
    assert scheduler.ledger.jobs_held == 1
    scheduler.handle([Released("b"), Released("b")], 2.0)
    assert scheduler.ledger.jobs_held == 0
    assert scheduler.ledger.jobs_waiting == 1


def test_time_on_hold_does_not_count_as_waiting(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    scheduler.handle([Held("b")], 10.0)
    scheduler.handle([Released("b")], 100.0)
    assert scheduler.ledger.jobs["b"].wait_s(105.0) == 15.0


def test_a_held_job_can_be_cancelled(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), submitted("b"), Held("b")], 0.0)
    assert scheduler.ledger.jobs["b"].state is State.HELD
    scheduler.handle([Cancelled("b")], 1.0)
    assert scheduler.ledger.jobs_held == 0
