"""The policy can be changed between two decisions; the change itself disturbs nobody."""

from __future__ import annotations

import math

import pytest
from core_helpers import Make, running, submitted, wakes

from weft.core.commands import Preempt
from weft.core.events import Finished, Woken
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.view import View
from weft.policies.registry import POLICIES


def busy(make: Make, name: str) -> Scheduler:
    """Two run, one has waited a while, and one came later."""
    scheduler = make(name, 4)
    scheduler.handle([submitted("a", 2, declared_steps=90.0)], 0.0)
    scheduler.handle([submitted("b", 2, declared_steps=80.0)], 1.0)
    scheduler.handle([submitted("c", 3, declared_steps=70.0), submitted("d", 1, declared_steps=99.0)], 2.0)
    return scheduler


@pytest.mark.parametrize("after", POLICIES)
@pytest.mark.parametrize("before", ["fifo", "tiresias-l", "fair"])
def test_a_change_of_policy_restarts_nobody(make: Make, before: str, after: str) -> None:
    scheduler = busy(make, before)
    leases = {job.id: (job.generation, job.allocation) for job in scheduler.ledger.running.values()}
    scheduler.change_policy(POLICIES[after]())
    assert {job.id: (job.generation, job.allocation) for job in scheduler.ledger.running.values()} == leases
    commands = scheduler.handle([], 3.0)
    moved = {command.job_id for command in commands if isinstance(command, Preempt)}
    assert moved.isdisjoint(running(scheduler)), "somebody was stopped only to go on"
    scheduler.ledger.validate()


@pytest.mark.parametrize("after", POLICIES)
def test_under_the_new_policy_every_job_still_ends(make: Make, after: str) -> None:
    scheduler = busy(make, "fifo")
    scheduler.change_policy(POLICIES[after]())
    now = 3.0
    while scheduler.ledger.jobs:
        now += 10_000.0
        scheduler.handle([Woken()], now)
        ends = [Finished(job.id, job.generation) for job in scheduler.ledger.running.values()]
        assert ends, "they wait, and nobody runs"
        scheduler.handle(ends, now)
        scheduler.ledger.validate()


def test_the_wish_of_the_old_policy_to_be_woken_is_forgotten(make: Make) -> None:
    scheduler = make("tiresias-l", 1)
    assert wakes(scheduler.handle([submitted("a")], 0.0)) == [3250.0]
    scheduler.change_policy(POLICIES["fifo"]())
    assert wakes(scheduler.handle([], 1.0)) == []
    scheduler.change_policy(POLICIES["tiresias-l"]())
    assert wakes(scheduler.handle([], 2.0)) == [3250.0]


def test_a_policy_that_fails_has_changed_nothing_and_is_asked_again(make: Make) -> None:
    fifo = POLICIES["fifo"]()
    asked = 0

    class Fails:
        def decide(self, view: View) -> Plan:
            nonlocal asked
            asked += 1
            if asked == 2:
                raise ZeroDivisionError
            return fifo.decide(view)

        explain = fifo.explain

    scheduler = make(Fails(), 1)
    scheduler.handle([submitted("a"), submitted("b")], 0.0)
    scheduler.record([Finished("a", 1)], 1.0)
    with pytest.raises(ZeroDivisionError):
        scheduler.decide(1.0)
    assert running(scheduler) == set()
    scheduler.decide(2.0)
    assert running(scheduler) == {"b"}


@pytest.mark.parametrize("name", POLICIES)
def test_the_waiting_line_holds_everybody_who_waits_and_has_a_rule(make: Make, name: str) -> None:
    scheduler = busy(make, name)
    ledger = scheduler.ledger
    assert {job.id for job in scheduler.waiting_line(3.0)} == {job.id for job in ledger.jobs.values() if job.is_waiting}
    assert scheduler.rule


@pytest.mark.parametrize("name", ["fifo", "srtf", "las", "tiresias-l", "srsf"])
def test_who_stands_first_in_the_line_starts_first(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("now", declared_steps=1.0, min_run_s=1e6)], 0.0)
    for at, steps in enumerate((30.0, 10.0, 20.0), 1):
        scheduler.handle([submitted(f"j{at}", declared_steps=steps)], float(at))
    (first, *_) = scheduler.waiting_line(4.0)
    scheduler.handle([Finished("now", 1)], 4.0)
    assert running(scheduler) == {first.id}


def test_a_policy_that_tells_no_line_is_shown_by_arrival(make: Make) -> None:
    class Silent:
        def decide(self, view: View) -> Plan:
            return Plan(wake_at=math.inf)

        explain = POLICIES["fifo"]().explain

    scheduler = make(Silent(), 1)
    scheduler.handle([submitted("b"), submitted("a")], 0.0)
    assert [job.id for job in scheduler.waiting_line(1.0)] == ["b", "a"]
    assert scheduler.rule == "Silent"
