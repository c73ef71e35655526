"""A plan is a proposal: whatever breaks a rule is rejected, with the reason, and nothing has changed."""

from __future__ import annotations

import math

import pytest
from core_helpers import Make, Script, eviction, grant, picture, submitted

from weft.core.errors import PlanRejectedError
from weft.core.events import Held, NodeLost
from weft.core.plan import Plan, check
from weft.core.values import Node

WRONG: dict[str, tuple[Plan, str]] = {
    "a stranger started": (Plan([grant("nobody", (0, 1))]), "nobody is granted devices but does not wait for any"),
    "a stranger evicted": (Plan([], [eviction("nobody")]), "nobody is evicted but does not run"),
    "woken in the past": (Plan(wake_at=0.5), "asks to be woken at 0.5 s, which is not after"),
    "woken at no time": (Plan(wake_at=math.nan), "asks to be woken at nan s"),
    "a waiting job evicted": (Plan([], [eviction("waits")]), "waits is evicted but does not run"),
    "evicted twice": (Plan([], [eviction("runs"), eviction("runs")]), "runs is evicted but does not run"),
    "evicted too soon": (
        Plan([], [eviction("protected")]),
        "protected is evicted before its minimum run time of 60 s",
    ),
    "a running job started": (Plan([grant("runs", (0, 1))]), "runs is granted devices but does not wait for any"),
    "a held job started": (Plan([grant("held", (0, 1))]), "held is granted devices but does not wait for any"),
    "started twice": (
        Plan([grant("waits", (0, 2)), grant("waits", (0, 2))]),
        "waits is granted devices but does not wait for any",
    ),
    "a gang in part": (
        Plan([grant("waits", (0, 1))]),
        "waits needs its gang of 2 whole, but is placed as ((0, 1),)",
    ),
    "a gang and more": (Plan([grant("waits", (0, 3))]), "waits needs its gang of 2 whole"),
    "a gang nowhere": (Plan([grant("waits")]), "waits"),
    "a node named twice": (Plan([grant("waits", (0, 1), (0, 1))]), "waits needs its gang of 2 whole"),
    "none of a node": (Plan([grant("waits", (0, 2), (1, 0))]), "on a missing node or on mixed device types"),
    "less than none": (Plan([grant("waits", (0, 3), (1, -1))]), "on a missing node or on mixed device types"),
    "a lost node": (Plan([grant("waits", (3, 2))]), "on a missing node or on mixed device types"),
    "mixed types": (Plan([grant("waits", (0, 1), (2, 1))]), "on a missing node or on mixed device types"),
    "a type it refuses": (Plan([grant("picky", (0, 1))]), "picky may not run on type any"),
    "more than is free": (Plan([grant("waits", (1, 2))]), "waits is granted more devices of n1 than are free"),
    "more than is free for two": (
        Plan([grant("waits", (0, 2)), grant("other", (0, 1))]),
        "other is granted more devices of n0 than are free",
    ),
    "a node that never was": (Plan([grant("waits", (9, 2))]), "waits is placed"),
    "a node counted from the end": (Plan([grant("waits", (-4, 2))]), "waits is placed"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_plan_is_rejected_and_changes_nothing(make: Make, case: str) -> None:
    plan, message = WRONG[case]
    first = Plan([grant("runs", (0, 1)), grant("protected", (1, 2))])
    nodes = Node("n0", 3), Node("n1", 2), Node("n2", 1, "other"), Node("n3", 4)
    scheduler = make(Script(first), *nodes)
    described = [
        submitted("runs"),
        submitted("protected", 2, min_run_s=60.0),
        submitted("waits", 2),
        submitted("other"),
        submitted("held"),
        submitted("picky", device_types=frozenset({"other"})),
    ]
    scheduler.handle([NodeLost("n3"), *described, Held("held")], 0.0)
    before = picture(scheduler.ledger)
    with pytest.raises(PlanRejectedError) as caught:
        check(plan, scheduler.ledger, 30.0)
    assert message in str(caught.value)
    assert picture(scheduler.ledger) == before


def test_the_scheduler_raises_what_the_check_says(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 2))])), 4)
    with pytest.raises(PlanRejectedError, match="a needs its gang of 1 whole"):
        scheduler.handle([submitted("a")], 0.0)
    assert scheduler.ledger.devices_held == 0


def test_a_job_may_be_evicted_and_started_elsewhere_in_one_plan(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([grant("a", (1, 1))], [eviction("a")])), 1, 1)
    scheduler.handle([submitted("a")], 0.0)
    commands = scheduler.handle([], 5.0)
    assert [type(command).__name__ for command in commands] == ["Preempt", "Start"]
    assert scheduler.ledger.jobs["a"].allocation == ((1, 1),)


def test_devices_of_an_evicted_job_are_free_for_another_in_the_same_plan(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 2))]), Plan([grant("b", (0, 2))], [eviction("a")])), 2)
    scheduler.handle([submitted("a", 2), submitted("b", 2)], 0.0)
    scheduler.handle([], 5.0)
    assert scheduler.ledger.jobs["b"].is_running


def test_a_minimum_run_time_is_over_at_its_very_end(make: Make) -> None:
    scheduler = make(Script(Plan([grant("a", (0, 1))]), Plan([], [eviction("a")])), 1)
    scheduler.handle([submitted("a", min_run_s=0.3)], 0.1)
    scheduler.handle([], 0.1 + 0.3)
    assert not scheduler.ledger.jobs["a"].is_running
