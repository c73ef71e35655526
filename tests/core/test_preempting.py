"""Devices go to those who come first, but not before a minimum run time is over; policies ask to be woken."""

from __future__ import annotations

import math

import pytest
from core_helpers import Make, Script, preempted, running, started, submitted, wakes

from weft.core.commands import Preempt, Start
from weft.core.events import Finished, Woken
from weft.core.plan import Plan
from weft.core.reasons import Code
from weft.policies.registry import POLICIES

PREEMPTING = [
    ("srtf", {}),
    ("srsf", {}),
    ("las", {"quantum_s": 4.0}),
    ("tiresias-l", {"thresholds": (8.0,)}),
]


def test_a_shorter_job_takes_the_devices_of_a_longer_one(make: Make) -> None:
    scheduler = make("srtf", 2)
    scheduler.handle([submitted("long", 2, declared_steps=100.0)], 0.0)
    stop, start = scheduler.handle([submitted("short", declared_steps=5.0)], 10.0)
    assert isinstance(stop, Preempt)
    assert isinstance(start, Start)
    assert (stop.job_id, stop.generation, str(stop.reason)) == (
        "long", 1, "preempted: short comes before it and needs its devices",
    )  # fmt: skip
    assert (start.job_id, start.allocation, start.reason.code) == ("short", ((0, 1),), Code.FITS_AFTER_PREEMPTING)


def test_a_preempted_job_goes_on_with_its_next_attempt(make: Make) -> None:
    scheduler = make("srtf", 1)
    scheduler.handle([submitted("long", declared_steps=100.0)], 0.0)
    scheduler.handle([submitted("short", declared_steps=5.0)], 10.0)
    (again,) = scheduler.handle([Finished("short", 1)], 15.0)
    assert isinstance(again, Start)
    assert (again.job_id, again.generation) == ("long", 2)
    assert scheduler.ledger.jobs["long"].remaining_s(20.0) == 85.0


@pytest.mark.parametrize(("name", "parameters"), PREEMPTING)
def test_a_running_job_keeps_its_devices_for_its_minimum_run_time(
    make: Make, name: str, parameters: dict[str, float]
) -> None:
    scheduler = make(name, 1, **parameters)
    wake_at = wakes(scheduler.handle([submitted("first", declared_steps=100.0, min_run_s=30.0)], 0.0))
    commands = scheduler.handle([submitted("second", declared_steps=50.0)], 10.0)
    now = 10.0
    while not preempted(commands):
        wake_at += wakes(commands)
        now = wake_at[-1]
        assert now <= 30.0, "the policy did not ask to be woken when the minimum run time is over"
        commands = scheduler.handle([Woken()], now)
    assert now == pytest.approx(30.0)
    assert running(scheduler) == {"second"}


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_frequent_decisions_do_not_make_equal_jobs_take_turns(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", declared_steps=500.0), submitted("b", declared_steps=500.0)], 0.0)
    stops = sum(len(preempted(scheduler.handle([], 1.0 + i / 1000))) for i in range(1000))
    assert stops <= 2


def test_a_non_preempting_policy_lets_jobs_run(make: Make) -> None:
    scheduler = make("backfill", 1)
    scheduler.handle([submitted("long", declared_steps=100.0)], 0.0)
    assert scheduler.handle([submitted("short", declared_steps=1.0)], 1.0) == []


def test_a_wake_is_commanded_only_when_it_changes(make: Make) -> None:
    scheduler = make(Script(Plan(wake_at=5.0), Plan(wake_at=5.0), Plan(wake_at=7.0), Plan(), Plan()), 1)
    assert [wakes(scheduler.handle([], float(now))) for now in range(5)] == [[5.0], [], [7.0], [math.inf], []]


def test_a_queue_policy_asks_to_be_woken_when_a_job_will_be_demoted(make: Make) -> None:
    scheduler = make("tiresias-l", 2, thresholds=(8.0,))
    assert wakes(scheduler.handle([submitted("a", 2)], 0.0)) == [4.0]
    commands = scheduler.handle([submitted("b", 1)], 1.0)
    assert not started(commands)
    commands = scheduler.handle([Woken()], 4.0)
    assert preempted(commands) == ["a"]
    assert wakes(commands) == [12.0]


def test_a_quantum_counts_only_while_somebody_waits(make: Make) -> None:
    scheduler = make("las", 1, quantum_s=60.0)
    assert wakes(scheduler.handle([submitted("a")], 0.0)) == []
    assert wakes(scheduler.handle([submitted("b")], 10.0)) == [60.0]
    assert wakes(scheduler.handle([Finished("a", 1)], 20.0)) == [math.inf]


def test_a_policy_woken_too_early_is_woken_again(make: Make) -> None:
    scheduler = make("tiresias-l", 1)
    assert wakes(scheduler.handle([submitted("a")], 0.0)) == [3250.0]
    assert wakes(scheduler.handle([Woken()], 3249.0)) == [3250.0]
