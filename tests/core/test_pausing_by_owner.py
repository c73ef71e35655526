"""A job that its owner pauses: whoever decides has no say in it, and its devices are free for others."""

from __future__ import annotations

import json

import pytest
from core_helpers import Make, Script, grant, preempted, running, started, submitted

from weft.core.commands import Preempt
from weft.core.events import Cancelled, Finished, Held, Lost, Released
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.snapshot import restored, snapshot
from weft.core.transitions import State
from weft.policies.registry import POLICIES

PAUSED = Reason(Code.PAUSED)
PAUSE, RESUME = Held("a", PAUSED), Released("a", Code.PAUSED)


@pytest.mark.parametrize("name", POLICIES)
def test_a_paused_job_leaves_its_devices_to_others_until_it_is_resumed(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=9.0)], 0.0)
    assert Preempt("a", 1, PAUSED) in scheduler.handle([PAUSE], 2.0)
    assert str(scheduler.reason("a", 2.0)) == "paused by its owner"
    assert set(started(scheduler.handle([submitted("b", declared_steps=9.0)], 3.0))) == {"b"}
    assert not started(scheduler.handle([Finished("b", 1)], 4.0))
    assert set(started(scheduler.handle([RESUME], 5.0))) == {"a"}
    assert scheduler.ledger.jobs["a"].generation == 2


@pytest.mark.parametrize("name", POLICIES)
def test_a_pause_of_a_waiting_job_keeps_it_from_starting(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    assert not started(scheduler.handle([submitted("a", declared_steps=9.0), PAUSE], 0.0))
    assert set(started(scheduler.handle([RESUME], 1.0))) == {"a"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_pause_taken_back_within_one_instant_leaves_the_job_running_under_a_new_lease(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=9.0)], 0.0)
    commands = scheduler.handle([PAUSE, RESUME], 1.0)
    assert (preempted(commands), set(started(commands))) == (["a"], {"a"})
    assert scheduler.ledger.jobs["a"].generation == 2


def test_the_minimum_run_time_binds_the_policy_and_not_the_owner(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a", min_run_s=100.0)], 0.0)
    assert preempted(scheduler.handle([PAUSE], 1.0)) == ["a"]


def test_a_gang_is_paused_whole(make: Make) -> None:
    scheduler = make("fifo", 2, 2)
    scheduler.handle([submitted("a", 4)], 0.0)
    scheduler.handle([PAUSE], 1.0)
    assert scheduler.ledger.devices_held == 0
    assert scheduler.ledger.free_counts == [2, 2]


def test_time_paused_by_the_owner_is_neither_run_nor_waited(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([PAUSE], 10.0)
    job = scheduler.ledger.jobs["a"]
    scheduler.handle([RESUME], 100.0)
    assert (job.run_s(105.0), job.wait_s(105.0)) == (15.0, 0.0)


def test_a_pause_and_a_hold_are_told_apart_and_both_have_to_end(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a"), Held("a"), PAUSE], 0.0)
    assert str(scheduler.reason("a", 0.0)) == "paused by its owner"
    assert not started(scheduler.handle([RESUME], 1.0))
    assert str(scheduler.reason("a", 1.0)) == "held by its owner"
    assert started(scheduler.handle([Released("a")], 2.0))


@pytest.mark.parametrize("end", [Cancelled("a"), Finished("a", 1)])
def test_a_paused_job_can_end(make: Make, end: Cancelled | Finished) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([PAUSE], 1.0)
    scheduler.handle([end], 2.0)
    assert (scheduler.ledger.jobs, scheduler.ledger.jobs_held) == ({}, 0)


def test_a_paused_job_whose_attempt_is_lost_stays_paused(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([PAUSE], 1.0)
    assert not started(scheduler.handle([Lost("a", 1)], 2.0))
    assert scheduler.ledger.jobs["a"].state is State.HELD


def test_a_decision_from_the_log_is_not_committed_twice(make: Make) -> None:
    """The log has the pause, and the command that followed from it."""
    scheduler = make(Script(Plan([grant("a", (0, 1))])), 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.record([PAUSE], 1.0)
    scheduler.repeat(Preempt("a", 1, PAUSED), 1.0)
    assert running(scheduler) == set()
    assert scheduler.ledger.take_stops() == []
    scheduler.ledger.validate()


def test_a_pause_survives_a_snapshot(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([submitted("a")], 0.0)
    scheduler.handle([PAUSE], 1.0)
    ledger = restored(json.loads(json.dumps(snapshot(scheduler.ledger))))
    assert ledger.jobs["a"].holds == (PAUSED,)
