"""Gandiva's migration: jobs move where that pays, and what a move gained is measured and told."""

from __future__ import annotations

import pytest
from sharing_words import GB, Stage, filling, told

from weft.core.errors import InputError
from weft.core.events import Finished, Measured, NodeJoined, NodeLost
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, Node
from weft.policies.migrate.migration import Migration
from weft.policies.placement import Consolidated
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES


def moving(cost_s: float = 30.0) -> Policy:
    return filling(migration=Migration(cost_s))


def of_two_types(cost_s: float = 30.0, **described: object) -> Stage:
    """A K80 that `slow` has, four times as fast on the V100, which `other` has."""
    stage = Stage(moving(cost_s))
    nodes = (Node("n0", 1, "K80", 16 * GB), Node("n1", 1, "V100", 16 * GB))
    stage.scheduler = Scheduler(Cluster(nodes), moving(cost_s))
    stage.submit(0.0, "other", device_types=frozenset({"V100"}))
    stage.submit(0.0, "slow", step_rate_hz={"K80": 1.0, "V100": 4.0}, **described)
    assert stage.job("slow").allocation == ((0, 1),)
    return stage


def test_a_job_moves_to_a_better_type_when_one_is_vacated() -> None:
    stage = of_two_types()
    assert told(stage.tell(1000.0, Finished("other", 1))) == [
        "preempt slow: migrated: to V100, where it is faster",
        "start slow: migrated: to V100, where it is faster",
    ]
    assert stage.job("slow").allocation == ((1, 1),)


@pytest.mark.parametrize(("ran_s", "cost_s", "moves"), [(39.0, 30.0, False), (41.0, 30.0, True), (41.0, 40.0, False)])
def test_it_moves_only_if_it_gains_more_than_a_move_costs_in_the_time_it_is_expected_to_run_on(
    ran_s: float, cost_s: float, moves: bool
) -> None:
    """It saves three quarters of a run as long as the one so far."""
    stage = of_two_types(cost_s)
    stage.tell(ran_s, Finished("other", 1))
    assert (stage.job("slow").allocation == ((1, 1),)) is moves


def test_who_is_not_to_be_moved_stays_on_the_worse_type() -> None:
    stage = of_two_types(may_migrate=False)
    stage.tell(10_000.0, Finished("other", 1))
    assert stage.job("slow").allocation == ((0, 1),)


def test_what_a_move_gained_is_measured_and_told_once() -> None:
    stage = of_two_types()
    stage.measure(50.0, "slow", rate_hz=1.0)
    stage.tell(1000.0, Finished("other", 1))
    assert told(stage.measure(1050.0, "slow", rate_hz=3.9)) == ["tell slow: migrated: +290% measured"]
    assert told(stage.measure(1110.0, "slow", rate_hz=3.8)) == []


def test_of_a_job_that_was_not_measured_before_its_move_no_gain_is_told() -> None:
    stage = of_two_types()
    stage.tell(1000.0, Finished("other", 1))
    assert told(stage.measure(1050.0, "slow", rate_hz=3.9)) == []


def test_a_measure_beside_somebody_who_came_after_the_move_says_nothing_of_what_it_gained() -> None:
    stage = of_two_types()
    stage.measure(50.0, "slow", rate_hz=1.0)
    stage.tell(1000.0, Finished("other", 1))
    assert told(stage.measure(1050.0, "slow", rate_hz=0.8, neighbours=("guest",))) == []
    assert told(stage.measure(1110.0, "slow", rate_hz=3.9)) == [], "nor does what comes later"


def test_a_later_lease_says_nothing_of_what_a_move_gained() -> None:
    stage = of_two_types()
    stage.measure(50.0, "slow", rate_hz=1.0)
    stage.tell(1000.0, Finished("other", 1))
    moved = stage.job("slow").generation
    stage.tell(1010.0, NodeLost("n1"))
    assert stage.job("slow").generation == moved + 1
    assert told(stage.measure(1050.0, "slow", rate_hz=0.8)) == []


def test_a_measure_that_comes_as_it_is_moved_says_nothing_of_what_the_move_gained() -> None:
    stage = of_two_types()
    stage.measure(50.0, "slow", rate_hz=1.0)
    lease = stage.job("slow").generation
    stage.tell(1000.0, Finished("other", 1), Measured("slow", lease, 1.0, 0.3, GB, GB))
    assert [line for line in stage.lines if "measured" in line] == []
    assert told(stage.measure(1050.0, "slow", rate_hz=3.9)) == ["tell slow: migrated: +290% measured"]


def test_what_it_gained_is_told_against_what_it_made_with_nobody_beside_it() -> None:
    """It was slower beside a guest, which left: that is not the move's merit."""
    stage = of_two_types()
    stage.measure(50.0, "slow", rate_hz=1.0)
    stage.measure(110.0, "slow", rate_hz=0.5, neighbours=("guest",))
    stage.tell(1000.0, Finished("other", 1))
    assert told(stage.measure(1050.0, "slow", rate_hz=4.0)) == ["tell slow: migrated: +300% measured"]


def test_of_a_job_that_was_measured_only_beside_a_guest_no_gain_is_told() -> None:
    stage = of_two_types()
    stage.measure(110.0, "slow", rate_hz=0.5, neighbours=("guest",))
    stage.tell(1000.0, Finished("other", 1))
    assert told(stage.measure(1050.0, "slow", rate_hz=4.0)) == []


def spread_gang(**described: object) -> Stage:
    """A gang of two, which suffers from being spread, on two nodes; a third is full of another job."""
    stage = Stage(moving(), 1, 1, 2)
    stage.submit(0.0, "z", gang_size=2, may_migrate=False)
    assert stage.job("z").allocation == ((2, 0b11),)
    stage.submit(3.0, "gang", gang_size=2, skew=1.0, **described)
    assert [node for node, _ in stage.job("gang").allocation] == [0, 1]
    return stage


def test_a_gang_that_suffers_from_being_spread_is_brought_together_again() -> None:
    stage = spread_gang()
    stage.tell(1000.0, Finished("z", 1))
    assert stage.lines[-1] == "start gang: migrated: its gang is together again"
    assert stage.job("gang").allocation == ((2, 0b11),)


def test_a_gang_that_is_not_to_be_moved_stays_spread() -> None:
    stage = spread_gang(may_migrate=False)
    stage.tell(1000.0, Finished("z", 1))
    assert len(stage.job("gang").allocation) == 2


def fragmented(**described: object) -> Stage:
    """One free device on each of two nodes; a gang of two, which must be together, waits."""
    stage = Stage(moving(), 2, 2)
    policy = filling(Consolidated(), Migration(30.0))
    stage.scheduler = Scheduler(Cluster(tuple(Node(f"n{i}", 2) for i in range(2))), policy)
    stage.submit(0.0, "a", "b", "c", "d", **described)
    stage.tell(500.0, Finished("b", 1), Finished("d", 1))
    stage.submit(501.0, "gang", gang_size=2, skew=1.0)
    return stage


def test_a_small_job_makes_room_for_a_gang_that_waits_for_a_block() -> None:
    stage = fragmented()
    stage.tell(600.0)
    assert any("migrated: makes room for the gang of gang" in line for line in stage.lines), stage.lines
    stage.tell(601.0)
    assert "gang" in stage.running
    assert len(stage.job("gang").allocation) == 1


def test_who_is_not_to_be_moved_makes_room_for_nobody() -> None:
    stage = fragmented(may_migrate=False)
    for now in (600.0, 700.0, 5000.0):
        stage.tell(now)
    assert "gang" not in stage.running


def test_a_move_is_not_made_before_the_minimum_run_time_is_over() -> None:
    stage = of_two_types(min_run_s=2000.0)
    stage.tell(1000.0, Finished("other", 1))
    assert stage.job("slow").allocation == ((0, 1),)


# ---- what moves cost


def test_what_a_move_costs_is_learnt_from_moves() -> None:
    """Measuring takes 20 s; the first measure after the move comes 30 s later than that, where 80 were assumed."""
    policy = moving(80.0)
    stage = of_two_types()
    stage.scheduler.change_policy(policy)
    assert policy.migration
    stage.measure(20.0, "slow", "other")
    assert policy.migration.cost_s == 80.0
    stage.tell(1000.0, Finished("other", 1))
    stage.measure(1050.0, "slow", rate_hz=4.0)
    assert policy.migration.cost_s == pytest.approx(80.0 + 0.25 * (30.0 - 80.0))
    stage.measure(2000.0, "slow", rate_hz=4.0)
    assert policy.migration.cost_s == pytest.approx(67.5), "only the first measure of a lease tells how it began"


def test_a_start_where_it_was_before_says_nothing_of_moves() -> None:
    policy = moving(30.0)
    stage = Stage(policy, 1)
    stage.submit(0.0, "a")
    stage.measure(20.0, "a")
    stage.tell(30.0, NodeJoined(Node("n1", 1)))
    assert policy.migration
    assert policy.migration.cost_s == 30.0


@pytest.mark.parametrize("name", ["weft", "gandiva"])
def test_a_cost_that_makes_no_sense_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="migration_s -1 is not 0 or more"):
        POLICIES[name](migration_s=-1.0)
