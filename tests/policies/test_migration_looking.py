"""When migration looks: by itself as soon as a move pays that there is room for, and never for nothing."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from sharing_words import GB, Stage, filling

from weft.core.commands import Start
from weft.core.events import Event, Finished, NodeJoined, Submitted, Woken
from weft.core.reasons import Code
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobClass, JobSpec, Node
from weft.policies.base import Placer
from weft.policies.migrate.migration import Migration
from weft.policies.placement import Consolidated
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

FOUR_TIMES = {"K80": 1.0, "V100": 4.0}


def moving(place: Placer | None = None) -> Policy:
    """Of itself it asks for no wake-up: who wakes it is migration. A move costs 30 s."""
    return filling(place, Migration(30.0))


def of_types(policy: Policy, **counts: int) -> Stage:
    stage = Stage(policy)
    nodes = tuple(Node(f"n{i}", count, kind, 16 * GB) for i, (kind, count) in enumerate(counts.items()))
    stage.scheduler = Scheduler(Cluster(nodes), policy)
    return stage


def slow_one(policy: Policy | None = None, **described: object) -> Stage:
    """`slow` has the K80, and would be four times as fast on the V100, which `other` has: from 40 s on a move pays."""
    stage = of_types(policy or moving(), K80=1, V100=1)
    stage.submit(0.0, "other", device_types=frozenset({"V100"}))
    stage.submit(0.0, "slow", step_rate_hz=FOUR_TIMES, **described)
    assert stage.job("slow").allocation == ((0, 1),)
    return stage


def wake_ups(stage: Stage, until_s: float) -> list[float]:
    """When it is woken, if nothing else happens any more."""
    woken_s = []
    while stage.wake_at < until_s:
        woken_s.append(stage.wake_at)
        stage.tell(stage.wake_at)
    return woken_s


def moved_at_s(stage: Stage, until_s: float = 1e6) -> list[float]:
    """When somebody is moved, if nothing else happens any more."""
    wake_ups(stage, until_s)
    starts = [(now, command) for now, command in stage.log if isinstance(command, Start)]
    return [now for now, start in starts if start.reason.code is Code.MIGRATED]


@pytest.mark.parametrize("policy", [moving(), POLICIES["gandiva"]()], ids=["moving", "gandiva"])
def test_a_move_that_does_not_pay_yet_is_made_when_it_does_without_anything_else_happening(policy: Policy) -> None:
    stage = slow_one(policy)
    stage.tell(20.0, Finished("other", 1))
    assert stage.job("slow").allocation == ((0, 1),)
    assert moved_at_s(stage) == [80.0], "it pays from 40 s on, and a minute after the look at 20 s is the next"
    assert stage.job("slow").allocation == ((1, 1),)


def test_it_is_woken_at_the_very_instant_at_which_a_move_begins_to_pay_however_far_away_that_is() -> None:
    stage = of_types(moving(), K80=1, V100=1)
    stage.submit(0.0, "other", device_types=frozenset({"V100"}))
    stage.submit(0.0, "slow", step_rate_hz={"K80": 1.0, "V100": 1.01})
    stage.tell(20.0, Finished("other", 1))
    pays_s = 30.0 * 1.01 / 0.01
    assert stage.wake_at == pytest.approx(pays_s)
    assert moved_at_s(stage) == [pytest.approx(pays_s)]


def test_a_look_that_came_too_soon_after_the_last_is_made_up_for() -> None:
    stage = of_types(moving(), K80=2, V100=1)
    stage.submit(0.0, "other", device_types=frozenset({"V100"}))
    stage.submit(0.0, "slow", step_rate_hz=FOUR_TIMES)
    stage.tell(1000.0)
    stage.tell(1010.0, Finished("other", 1))
    assert moved_at_s(stage) == [1060.0]


def test_a_look_for_which_there_was_no_time_because_others_were_granted_devices_comes_right_after() -> None:
    stage = of_types(moving(), K80=2, V100=1)
    stage.submit(0.0, "other", device_types=frozenset({"V100"}))
    stage.submit(0.0, "slow", step_rate_hz=FOUR_TIMES)
    newcomer: Event = Submitted(JobSpec("newcomer", device_types=frozenset({"K80"})))
    stage.tell(1000.0, Finished("other", 1), newcomer)
    assert "newcomer" in stage.running
    assert moved_at_s(stage) == [1001.0]


def test_a_move_is_made_when_the_minimum_run_time_is_over() -> None:
    stage = slow_one(min_run_s=2000.0)
    stage.tell(1000.0, Finished("other", 1))
    assert moved_at_s(stage) == [2000.0]


def test_a_gang_is_brought_together_when_that_begins_to_pay() -> None:
    stage = Stage(moving(), 1, 1, 2)
    stage.submit(0.0, "z", gang_size=2, may_migrate=False)
    stage.submit(3.0, "gang", gang_size=2, skew=0.2)
    stage.tell(10.0, Finished("z", 1))
    assert moved_at_s(stage) == [pytest.approx(3.0 + 30.0 * 1.2 / 0.2)]
    assert stage.job("gang").allocation == ((2, 0b11),)


def test_small_jobs_make_room_for_a_gang_when_that_begins_to_pay() -> None:
    """Four singles, two of which end: one of the others is worth moving when it has run 45 s."""
    stage = Stage(moving(Consolidated()), 2, 2)
    stage.submit(0.0, "a", "b", "c", "d")
    stage.tell(5.0, Finished("b", 1), Finished("d", 1))
    stage.submit(6.0, "gang", gang_size=2, skew=1.0)
    wake_ups(stage, 1e6)
    assert stage.job("gang").since_s <= 70.0
    assert "gang" in stage.running


def test_of_two_that_could_make_room_the_one_that_pays_first_is_waited_for() -> None:
    """The job on n0 may not leave before 5000 s; the one on n1 from when it has run 45 s."""
    stage = Stage(moving(Consolidated()), 2, 2)
    stage.submit(0.0, "a", "b", min_run_s=5000.0)
    stage.submit(0.0, "c", "d")
    stage.tell(5.0, Finished("b", 1), Finished("d", 1))
    stage.submit(6.0, "gang", gang_size=2, skew=1.0)
    assert moved_at_s(stage) == [65.0]
    assert {stage.job("a").allocation[0][0], stage.job("c").allocation[0][0]} == {0}


# ---- never for nothing


def test_nobody_is_woken_for_a_job_that_is_not_to_be_moved() -> None:
    stage = slow_one(may_migrate=False)
    stage.tell(20.0, Finished("other", 1))
    assert stage.wake_at == math.inf
    stage.tell(1000.0)
    stage.submit(1001.0, "next", device_types=frozenset({"V100"}))
    stage.tell(1010.0, Finished("next", 1))
    assert stage.wake_at == math.inf


def test_nobody_is_woken_while_nothing_is_free() -> None:
    stage = slow_one()
    assert wake_ups(stage, 1e6) == []


def test_nobody_is_woken_for_free_devices_that_are_no_better() -> None:
    stage = of_types(moving(), K80=3, V100=1)
    stage.submit(0.0, "fast", "same", step_rate_hz=FOUR_TIMES, device_types=frozenset({"V100"}))
    stage.submit(0.0, "a", "b", device_types=frozenset({"K80"}))
    stage.tell(1000.0)
    stage.tell(1010.0, Finished("a", 1))
    assert stage.wake_at == math.inf


def test_nobody_is_woken_where_all_devices_are_alike_and_no_gang_is_spread() -> None:
    stage = Stage(moving(), 2, 2)
    stage.submit(0.0, "a", "b", "c")
    stage.submit(1.0, "gang", gang_size=1, skew=1.0)
    for now in (100.0, 110.0):
        stage.tell(now)
    stage.tell(120.0, Finished("a", 1))
    stage.submit(121.0, "d")
    assert stage.wake_at == math.inf


def test_it_is_woken_once_for_what_has_changed_and_then_no_more_while_nothing_does() -> None:
    """The faster type has one device free, too few for the gang."""
    stage = of_types(moving(), K80=2, V100=2)
    stage.submit(0.0, "x", "y", device_types=frozenset({"V100"}))
    stage.submit(0.0, "gang", gang_size=2, step_rate_hz=FOUR_TIMES)
    stage.tell(1000.0, Finished("x", 1))
    stage.submit(1001.0, "x2", device_types=frozenset({"V100"}))
    stage.tell(1010.0, Finished("x2", 1))
    assert wake_ups(stage, 1e6) == [1060.0]


def test_it_is_woken_no_more_than_once_a_minute_however_many_are_about_to_pay() -> None:
    stage = of_types(moving(), K80=8, V100=8)
    held = [f"held{i}" for i in range(8)]
    stage.submit(0.0, *held, device_types=frozenset({"V100"}))
    for i in range(8):
        stage.submit(1.0 + 17.0 * i, f"slow{i}", step_rate_hz=FOUR_TIMES)
    stage.tell(130.0, *(Finished(name, 1) for name in held))
    woken_s = wake_ups(stage, 1e6)
    assert all(later - earlier >= 60.0 for earlier, later in pairwise(woken_s))
    assert len(woken_s) <= 4
    assert all(stage.job(f"slow{i}").allocation[0][0] == 1 for i in range(8))


def test_a_wake_up_changes_nothing_of_what_the_planner_remembers() -> None:
    """Else the whole line would be put together anew at each decision."""
    policy = moving()
    stage = slow_one(policy)
    stage.tell(20.0, Finished("other", 1))
    line = getattr(policy.planner, "_line", None)
    assert line is not None
    stage.tell(21.0, Woken())
    assert stage.wake_at == 80.0
    assert getattr(policy.planner, "_line", None) is line


def test_a_node_that_joins_is_looked_at_when_there_is_time() -> None:
    stage = of_types(moving(), K80=2)
    stage.submit(0.0, "slow", step_rate_hz=FOUR_TIMES)
    stage.tell(1000.0)
    stage.tell(1010.0, NodeJoined(Node("n1", 1, "V100", 16 * GB)))
    assert moved_at_s(stage) == [1060.0]


def test_nobody_makes_room_for_a_gang_that_has_room_and_waits_for_something_else() -> None:
    """Its tenant has no quota for it."""
    stage = Stage(POLICIES["weft"](), 2, 2, 2)
    stage.scheduler.ledger.tenants.quotas = {"poor": 0}
    stage.submit(0.0, "a", "b", "c")
    stage.tell(1.0)
    stage.submit(1000.0, "gang", gang_size=2, skew=1.0, tenant="poor", job_class=JobClass.GUARANTEED)
    assert moved_at_s(stage, 20_000.0) == []


def fragments_and_two_gangs(quotas: dict[str, int], **older: Any) -> Stage:
    """Of two nodes one device each is free, for two gangs of two that must be together."""
    stage = Stage(filling(Consolidated(), Migration(30.0)), 2, 2)
    stage.scheduler.ledger.tenants.quotas = quotas
    stage.submit(0.0, "a", "b", "c", "d")
    stage.tell(500.0, Finished("b", 1), Finished("d", 1))
    stage.submit(501.0, "older", gang_size=2, skew=1.0, **older)
    stage.submit(502.0, "younger", gang_size=2, skew=1.0)
    wake_ups(stage, 1e6)
    return stage


def test_nobody_makes_room_for_a_gang_that_waits_for_quota_but_for_the_next_that_may_start() -> None:
    stage = fragments_and_two_gangs({"poor": 0}, tenant="poor", job_class=JobClass.GUARANTEED)
    assert stage.running == {"a", "c", "younger"}
    assert [line for line in stage.lines if "makes room" in line and "younger" not in line] == []


def test_room_is_made_for_the_gang_that_goes_first_whichever_came_first() -> None:
    stage = fragments_and_two_gangs({}, job_class=JobClass.OPPORTUNISTIC)
    assert next(line for line in stage.lines if "makes room" in line).endswith("for the gang of younger")


def test_a_larger_gang_gets_room_though_an_older_one_waits_for_something_else() -> None:
    stage = Stage(filling(Consolidated(), Migration(30.0)), 4, 4)
    stage.scheduler.ledger.tenants.quotas = {"poor": 0}
    stage.submit(0.0, "a", gang_size=3)
    stage.submit(0.0, "b", gang_size=3)
    stage.submit(0.0, "c", "d")
    stage.tell(500.0, Finished("a", 1), Finished("b", 1))
    stage.submit(501.0, "older", gang_size=2, skew=1.0, tenant="poor", job_class=JobClass.GUARANTEED)
    stage.submit(502.0, "larger", gang_size=4, skew=1.0)
    wake_ups(stage, 1e6)
    assert stage.running == {"c", "d", "larger"}


def test_who_waits_for_the_devices_that_a_moved_job_leaves_gets_them_right_after() -> None:
    stage = slow_one()
    stage.submit(1.0, "waiting", device_types=frozenset({"K80"}))
    stage.tell(1000.0, Finished("other", 1))
    wake_ups(stage, 1e6)
    assert stage.job("waiting").since_s == 1001.0
    assert stage.job("waiting").allocation == ((0, 1),)
