"""A gang that lacks a block and no devices: small jobs are moved for it, and nobody is preempted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pytest
from sharing_words import Stage, told

from weft.core.events import Finished
from weft.core.values import JobClass
from weft.policies.registry import POLICIES

NO_QUOTAS: Mapping[str, int] = MappingProxyType({})


def fragmented(quotas: Mapping[str, int] = NO_QUOTAS, **described: object) -> Stage:
    """A large gang, which has had the most by far, on two nodes; on two others a small job and a free device each."""
    stage = Stage(POLICIES["weft"](), 2, 2, 2, 2)
    stage.scheduler.ledger.tenants.quotas = quotas
    stage.submit(0.0, "large", gang_size=4, skew=1.0)
    stage.submit(600.0, "a", "b", "c", "d", **described)
    assert [stage.job(name).allocation[0][0] for name in "abcd"] == [2, 2, 3, 3]
    stage.tell(1000.0, Finished("b", 1), Finished("d", 1))
    return stage


def test_a_small_job_is_moved_for_a_gang_and_who_is_last_in_line_is_not_preempted() -> None:
    stage = fragmented()
    assert told(stage.submit(1001.0, "gang", gang_size=2, skew=1.0)) == [
        "preempt a: migrated: makes room for the gang of gang",
        "start gang: starts on 2 of 2 free devices",
        "start a: migrated: makes room for the gang of gang",
    ]
    assert stage.running == {"large", "a", "c", "gang"}
    assert stage.job("gang").allocation == ((2, 0b11),)


def test_what_such_a_move_gained_is_measured_and_told() -> None:
    stage = fragmented()
    stage.measure(1000.5, "a", rate_hz=2.0)
    stage.submit(1001.0, "gang", gang_size=2, skew=1.0)
    assert "tell a: migrated: -50% measured" in told(stage.measure(1050.0, "a", rate_hz=1.0))


@pytest.mark.parametrize("job_class", [JobClass.OPPORTUNISTIC, JobClass.GUARANTEED])
def test_a_guaranteed_job_is_moved_only_for_one_that_is_guaranteed_too(job_class: JobClass) -> None:
    stage = fragmented(MappingProxyType({"gold": 6}), tenant="gold", job_class=JobClass.GUARANTEED)
    stage.submit(1001.0, "gang", gang_size=2, skew=1.0, tenant="gold", job_class=job_class)
    is_moved = any("makes room" in line for line in stage.lines)
    assert is_moved == (job_class is JobClass.GUARANTEED)
    assert {"a", "c"} <= stage.running


def test_for_a_gang_of_several_nodes_each_of_them_is_cleared() -> None:
    stage = Stage(POLICIES["weft"](), *[2] * 7)
    stage.submit(0.0, "large", gang_size=6, skew=1.0)
    stage.submit(600.0, *"abcdefgh")
    stage.tell(1000.0, *(Finished(name, 1) for name in "bdfh"))
    stage.submit(1001.0, "gang", gang_size=4, skew=1.0)
    assert stage.running == {"large", "a", "c", "e", "g", "gang"}
    assert len(stage.job("gang").allocation) == 2


def test_who_is_not_to_be_moved_stays_and_the_last_in_line_is_preempted() -> None:
    stage = fragmented(may_migrate=False)
    stage.submit(1001.0, "gang", gang_size=2, skew=1.0)
    assert stage.running == {"a", "c", "gang"}


def test_where_devices_are_lacking_the_last_in_line_is_preempted() -> None:
    stage = fragmented()
    stage.submit(1001.0, "e")
    stage.submit(1002.0, "gang", gang_size=2, skew=1.0)
    assert stage.running == {"a", "c", "e", "gang"}


def test_who_has_hardly_run_is_not_moved() -> None:
    """A move would cost it more than it has run."""
    stage = Stage(POLICIES["weft"](), 2, 2, 2, 2)
    stage.submit(0.0, "large", gang_size=4, skew=1.0)
    stage.submit(990.0, "a", "b", "c", "d")
    stage.tell(1000.0, Finished("b", 1), Finished("d", 1))
    stage.submit(1001.0, "gang", gang_size=2, skew=1.0)
    assert stage.running == {"a", "c", "gang"}


def test_those_that_are_moved_hold_no_more_devices_than_who_would_be_preempted() -> None:
    """last has had the most, and leaves two devices of the first node; three small ones would leave the second."""
    stage = Stage(POLICIES["weft"](), *[4] * 5)
    stage.submit(0.0, "last", "filler", gang_size=2, skew=1.0)
    stage.submit(800.0, *"abcd")
    stage.submit(801.0, "x", "y", "z", gang_size=3, may_migrate=False)
    stage.tell(900.0, Finished("filler", 1), Finished("d", 1))
    assert [stage.job(name).allocation[0][0] for name in ("last", *"abcxyz")] == [0, 1, 1, 1, 2, 3, 4]
    stage.submit(1000.0, "gang", gang_size=4, skew=1.0)
    assert stage.job("gang").allocation == ((0, 0b1111),)
    assert stage.running == {*"abcxyz", "gang"}
