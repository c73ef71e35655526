"""A job may be held for several reasons at once, each under its own code; it waits again when the last is gone."""

from __future__ import annotations

import pytest
from core_helpers import Make, Script, eviction, grant, running, started, submitted

from weft.core.events import Cancelled, Finished, Held, Released
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.transitions import State
from weft.policies.registry import POLICIES

AFTER = Held("a", Reason(Code.COMES_AFTER, ("7",)))
LIMITED = Held("a", Reason(Code.ARRAY_LIMIT, (2,)))


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_starts_only_when_the_last_of_its_holds_is_released(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=9.0), Held("a"), AFTER, LIMITED], 0.0)
    assert not started(scheduler.handle([Released("a", Code.COMES_AFTER)], 1.0))
    assert not started(scheduler.handle([Released("a")], 2.0))
    assert list(started(scheduler.handle([Released("a", Code.ARRAY_LIMIT)], 3.0))) == ["a"]
    assert scheduler.ledger.jobs["a"].holds == ()


def test_the_reason_shown_is_the_last_one_that_still_holds(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), AFTER, Held("a")], 0.0)
    assert str(scheduler.reason("a", 0.0)) == "held by its owner"
    scheduler.handle([Released("a")], 1.0)
    assert str(scheduler.reason("a", 1.0)) == "starts once 7 has succeeded"


def test_a_hold_said_again_replaces_the_one_of_its_code(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), AFTER, Held("a", Reason(Code.COMES_AFTER, ("8",)))], 0.0)
    assert scheduler.ledger.jobs["a"].holds == (Reason(Code.COMES_AFTER, ("8",)),)
    assert started(scheduler.handle([Released("a", Code.COMES_AFTER)], 1.0))


def test_a_release_of_what_does_not_hold_the_job_changes_nothing(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), AFTER], 0.0)
    assert scheduler.handle([Released("a", Code.BACKING_OFF)], 1.0) == []
    assert scheduler.ledger.jobs["a"].state is State.HELD
    assert scheduler.ledger.jobs_held == 1


def test_a_preempted_job_that_is_held_goes_on_when_it_is_released(make: Make) -> None:
    scheduler = make(
        Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")]), Plan(), Plan([grant("a", (0, 1))])), 1
    )
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([], 1.0)
    scheduler.handle([Held("a")], 2.0)
    scheduler.handle([Released("a")], 3.0)
    assert running(scheduler) == {"a"}
    assert scheduler.ledger.jobs["a"].generation == 2


@pytest.mark.parametrize("end", [Cancelled("a"), Finished("a", 1)])
def test_a_job_with_several_holds_can_end(make: Make, end: Cancelled | Finished) -> None:
    """It was told to pause, was held, and had just come to its end; or nobody wants it any more."""
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")])), 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([], 1.0)
    scheduler.handle([Held("a"), AFTER], 2.0)
    scheduler.handle([end], 3.0)
    assert (scheduler.ledger.jobs, scheduler.ledger.jobs_held) == ({}, 0)
