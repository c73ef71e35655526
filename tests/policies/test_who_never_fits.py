"""A job that the devices that are there could not hold, even if nobody else held anything, holds up nobody."""

from __future__ import annotations

import inspect

import pytest
from sharing_words import Stage

from plans import agreed, from_scratch
from weft.core.events import DevicesBlocked, Finished, NodeJoined, NodeLost
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Reason
from weft.core.values import Node
from weft.core.view import View
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

BOUND_S = 100.0
BOUNDED = [name for name in POLICIES if "bypass_limit_s" in inspect.signature(POLICIES[name]).parameters]
WAITING = [*BOUNDED, "fifo"]
"""Where somebody is waited for, sooner or later."""


def build(name: str) -> Policy:
    return POLICIES[name](bypass_limit_s=BOUND_S) if name in BOUNDED else POLICIES[name]()


class Both:
    """The policy as it is, and its order from scratch, where it has keys."""

    def __init__(self, name: str) -> None:
        self.policy = build(name)
        self.plain = from_scratch(build(name)) if hasattr(self.policy.order, "key") else None

    def decide(self, view: View) -> Plan:
        plan = self.policy.decide(view)
        return agreed(plan, self.plain.decide(view), view.now) if self.plain else plan

    def explain(self, view: View, job: Job) -> Reason:
        return self.policy.explain(view, job)


def with_a_gang_that_waits(name: str) -> Stage:
    """It needs both nodes, and is overdue when the first of them is free again."""
    stage = Stage(Both(name), 4, 4)
    stage.submit(0.0, "first", gang_size=4, min_run_s=1e6)
    stage.submit(1.0, "wide", gang_size=8)
    stage.tell(2.0 * BOUND_S)
    assert stage.running == {"first"}
    return stage


def why(stage: Stage, name: str) -> str:
    return str(stage.scheduler.reason(name, stage.now))


@pytest.mark.parametrize("name", WAITING)
def test_a_gang_that_could_be_held_is_waited_for(name: str) -> None:
    stage = with_a_gang_that_waits(name)
    stage.submit(2.0 * BOUND_S + 1.0, "small")
    assert stage.running == {"first"}
    assert why(stage, "small") == "waits behind wide, which needs 8 devices"


@pytest.mark.parametrize("name", WAITING)
def test_when_a_node_is_lost_nobody_waits_for_a_gang_that_needs_it(name: str) -> None:
    stage = with_a_gang_that_waits(name)
    stage.tell(2.0 * BOUND_S + 1.0, NodeLost("n1"))
    stage.submit(2.0 * BOUND_S + 2.0, "small", gang_size=2)
    stage.submit(2.0 * BOUND_S + 3.0, "other", gang_size=4)
    stage.tell(2.0 * BOUND_S + 4.0, Finished("first", 1))
    assert "small" in stage.running
    assert "wide" not in why(stage, "other")
    assert why(stage, "wide") == "needs 8 devices of type any; the cluster has 4"


@pytest.mark.parametrize("name", WAITING)
def test_nor_when_one_of_its_devices_is_somebody_elses(name: str) -> None:
    stage = with_a_gang_that_waits(name)
    stage.tell(2.0 * BOUND_S + 1.0, DevicesBlocked("n1", 0b1))
    stage.submit(2.0 * BOUND_S + 2.0, "small")
    assert stage.running == {"first", "small"}


@pytest.mark.parametrize("name", WAITING)
def test_when_the_node_is_back_the_gang_is_waited_for_again(name: str) -> None:
    stage = with_a_gang_that_waits(name)
    stage.tell(2.0 * BOUND_S + 1.0, NodeLost("n1"))
    stage.tell(2.0 * BOUND_S + 2.0, NodeJoined(Node("n1", 4)))
    stage.submit(2.0 * BOUND_S + 3.0, "small")
    assert stage.running == {"first"}
    stage.tell(2.0 * BOUND_S + 4.0, Finished("first", 1))
    assert stage.running == {"wide"}


@pytest.mark.parametrize("name", WAITING)
def test_behind_one_that_never_fits_another_that_does_is_waited_for(name: str) -> None:
    stage = with_a_gang_that_waits(name)
    stage.submit(2.0 * BOUND_S, "next", gang_size=4)
    stage.tell(2.0 * BOUND_S + 1.0, NodeLost("n1"))
    stage.tell(4.0 * BOUND_S)
    stage.tell(4.0 * BOUND_S + 1.0, NodeJoined(Node("n2", 2)))
    stage.submit(4.0 * BOUND_S + 2.0, "small")
    assert stage.running == {"first"}
    assert why(stage, "small") == "waits behind next, which needs 4 devices"
