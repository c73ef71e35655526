"""Nodes come and go, with everything that ran on them."""

from __future__ import annotations

import pytest
from core_helpers import Make, Script, grant, nodes, running, started, stopped, submitted

from weft.core.events import Finished, NodeJoined, NodeLost
from weft.core.plan import Plan
from weft.core.transitions import State
from weft.core.values import Node
from weft.policies.registry import POLICIES


def test_a_lost_node_requeues_every_job_on_it_and_takes_its_devices_with_it(make: Make) -> None:
    policy = Script(Plan([grant("a", (0, 2), (1, 1)), grant("b", (0, 1)), grant("c", (1, 1))]))
    scheduler = make(policy, *nodes(3, 3))
    scheduler.handle([submitted("a", 3), submitted("b"), submitted("c")], 0.0)
    scheduler.handle([NodeLost("n0")], 5.0)
    ledger = scheduler.ledger
    assert running(scheduler) == {"c"}
    assert ledger.jobs["a"].state is ledger.jobs["b"].state is State.PENDING
    assert (ledger.free_counts, ledger.device_count, ledger.devices_held) == ([0, 2], 3, 1)


@pytest.mark.parametrize("name", POLICIES)
def test_a_gang_that_lost_a_node_starts_again_whole_elsewhere(make: Make, name: str) -> None:
    scheduler = make(name, *nodes(2, 2, 2))
    scheduler.handle([submitted("a", 4, declared_steps=50.0)], 0.0)
    scheduler.handle([submitted("b", 1, declared_steps=90.0)], 1.0)
    commands = scheduler.handle([NodeLost("n0")], 5.0)
    scheduler.ledger.validate()
    if "a" not in running(scheduler):  # no policy that does not preempt may move the other one out of its way
        commands = scheduler.handle([Finished("b", 1)], 6.0)
    (first, second) = started(commands)["a"]
    assert (first, second) == ((1, 0b11), (2, 0b11))
    assert scheduler.ledger.jobs["a"].generation == 2


def test_work_done_before_the_node_was_lost_still_counts_as_service(make: Make) -> None:
    scheduler = make("fifo", 2)
    scheduler.handle([submitted("a", 2)], 0.0)
    scheduler.handle([NodeLost("n0")], 5.0)
    assert scheduler.ledger.jobs["a"].attained(8.0) == 10.0
    assert scheduler.ledger.tenants.attained("default", 8.0) == 10.0


@pytest.mark.parametrize("name", POLICIES)
def test_a_node_that_joins_brings_room_for_those_who_wait(make: Make, name: str) -> None:
    scheduler = make(name, 1)
    scheduler.handle([submitted("a", 1, declared_steps=9.0), submitted("b", 2, declared_steps=9.0)], 0.0)
    assert "b" not in running(scheduler)
    commands = scheduler.handle([NodeJoined(Node("n9", 2))], 1.0)
    assert started(commands)["b"] == ((1, 0b11),)


def test_a_lost_node_may_come_back_larger(make: Make) -> None:
    scheduler = make("fifo", 1)
    scheduler.handle([NodeLost("n0")], 0.0)
    assert not started(scheduler.handle([submitted("a", 2)], 1.0))
    assert started(scheduler.handle([NodeJoined(Node("n0", 2))], 2.0)) == {"a": ((1, 0b11),)}
    assert scheduler.ledger.device_count == 2


@pytest.mark.parametrize("name", POLICIES)
def test_jobs_wait_while_there_is_no_node_at_all(make: Make, name: str) -> None:
    scheduler = make(name, 2)
    scheduler.handle([submitted("a", declared_steps=9.0)], 0.0)
    assert not started(scheduler.handle([NodeLost("n0")], 1.0))
    assert not started(scheduler.handle([submitted("b", declared_steps=9.0)], 2.0))
    assert str(scheduler.reason("b", 2.0)) == "needs 1 device of type any; the cluster has 0"
    assert set(started(scheduler.handle([NodeJoined(Node("n1", 2))], 3.0))) == {"a", "b"}


def test_a_node_lost_in_the_same_instant_as_an_arrival_is_recorded_first(make: Make) -> None:
    scheduler = make("fifo", *nodes(2, 2))
    commands = scheduler.handle([submitted("a", 2), NodeLost("n0")], 0.0)
    assert started(commands) == {"a": ((1, 0b11),)}


def test_the_tasks_of_a_gang_that_outlive_a_lost_node_are_told_to_stop(make: Make) -> None:
    scheduler = make("backfill", *nodes(1, 1))
    scheduler.handle([submitted("a", 2)], 0.0)
    assert stopped(scheduler.handle([NodeLost("n0")], 1.0)) == [("a", 1)]
