"""An attempt may be lost: nobody knows how it ended, and the job waits again."""

from __future__ import annotations

import pytest
from core_helpers import Make, Script, eviction, grant, picture, running, started, submitted

from weft.core.events import Finished, Held, Lost, NodeLost
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.transitions import State
from weft.policies.registry import POLICIES

BACKING_OFF = Held("a", Reason(Code.BACKING_OFF, (1, "was lost", "1")))


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_whose_attempt_is_lost_starts_again_with_a_new_lease(make: Make, name: str) -> None:
    scheduler = make(name, 2)
    scheduler.handle([submitted("a", 2, declared_steps=50.0)], 0.0)
    assert started(scheduler.handle([Lost("a", 1)], 5.0)) == {"a": ((0, 0b11),)}
    assert scheduler.ledger.jobs["a"].generation == 2


@pytest.mark.parametrize("name", POLICIES)
def test_the_devices_of_a_lost_attempt_go_to_others_while_the_job_backs_off(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=50.0, min_run_s=9.0)], 0.0)
    scheduler.handle([submitted("b", declared_steps=60.0)], 1.0)
    assert list(started(scheduler.handle([Lost("a", 1), BACKING_OFF], 5.0))) == ["b"]
    assert scheduler.ledger.jobs["a"].state is State.HELD


def test_service_had_before_the_loss_still_counts(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2)], 0.0)
    scheduler.handle([Lost("a", 1), BACKING_OFF], 5.0)
    assert scheduler.ledger.jobs["a"].attained(9.0) == 10.0
    assert scheduler.ledger.tenants.attained("default", 9.0) == 10.0


@pytest.mark.parametrize("late", [Lost("a", 1), Lost("b", 1)])
def test_a_late_word_of_a_loss_is_dropped(make: Make, late: Lost) -> None:
    """Of a lease before the one it holds now, or of a job that is over."""
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([Lost("a", 1)], 1.0)
    before = picture(scheduler.ledger)
    assert scheduler.handle([late], 2.0) == []
    assert picture(scheduler.ledger) == before


def test_a_job_lost_while_it_is_paused_goes_on_waiting(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")])), 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([], 1.0)
    scheduler.handle([Lost("a", 1)], 2.0)
    job = scheduler.ledger.jobs["a"]
    assert (job.state, job.wait_s(4.0), job.run_s(4.0)) == (State.PENDING, 3.0, 1.0)


def test_a_job_lost_while_it_is_held_stays_held(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")])), 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([], 1.0)
    scheduler.handle([Held("a"), Lost("a", 1)], 2.0)
    assert scheduler.ledger.jobs["a"].state is State.HELD


def test_a_lost_node_and_a_lost_attempt_in_one_instant_are_one_loss(make: Make) -> None:
    scheduler = make("fifo", 1, 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([NodeLost("n0"), Lost("a", 1)], 1.0)
    assert running(scheduler) == {"a"}
    assert scheduler.ledger.jobs["a"].generation == 2


def test_the_end_of_a_lease_that_was_lost_and_given_anew_is_late(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([Lost("a", 1)], 1.0)
    scheduler.handle([Finished("a", 1)], 2.0)
    assert running(scheduler) == {"a"}


def test_a_job_that_is_lost_goes_before_one_that_comes_just_then(make: Make) -> None:
    scheduler = make("tiresias-l", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([], 1.0)
    assert list(started(scheduler.handle([submitted("b"), Lost("a", 1)], 2.0))) == ["a"]
