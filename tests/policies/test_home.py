"""Where a job ran last, it may still be in memory: it goes on there if it can, unless that place was a bad one."""

from __future__ import annotations

import pytest
from sharing_words import Stage

from weft.core.events import DevicesBlocked, Finished, Held, NodeJoined, NodeLost, Released
from weft.core.job import Job
from weft.core.values import JobSpec, Node
from weft.core.view import View
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.placement import Compact, Consolidated
from weft.policies.plan.free_devices import FreeDevices, home_of
from weft.policies.plan.preemption import make_way_home
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES

EVERYWHERE = ("any",)


def turns() -> Policy:
    return Policy(GandivaOrder(60.0, 1e9))


def room_of(*sizes: int) -> FreeDevices:
    stage = Stage(turns(), *sizes)
    return FreeDevices(View(stage.scheduler.ledger, (), 0.0))


def that_ran_on(*allocation: tuple[int, int], skew: float | None = None) -> Job:
    gang_size = sum(mask.bit_count() for _, mask in allocation) or 1
    job = Job(JobSpec("j", gang_size, skew=skew), 1, 0.0, 1.0)
    job.last_allocation = allocation
    return job


def test_home_is_where_it_ran_last() -> None:
    assert home_of(that_ran_on((1, 0b11)), room_of(2, 2), EVERYWHERE, Compact()) == ((1, 2),)


def test_who_never_ran_has_no_home() -> None:
    assert home_of(that_ran_on(), room_of(2), EVERYWHERE, Compact()) is None


def test_a_type_that_it_is_not_to_use_is_no_home() -> None:
    assert home_of(that_ran_on((0, 1)), room_of(2), ("V100",), Compact()) is None


@pytest.mark.parametrize(("skew", "goes_home"), [(None, True), (0.0, True), (0.5, False)])
def test_a_gang_that_ran_spread_and_suffers_from_it_does_not_go_home(skew: float | None, goes_home: bool) -> None:
    spread = that_ran_on((0, 0b1), (1, 0b1), skew=skew)
    assert (home_of(spread, room_of(2, 2), EVERYWHERE, Compact()) is not None) is goes_home


def test_a_gang_that_ran_spread_does_not_go_home_where_gangs_are_kept_together() -> None:
    assert home_of(that_ran_on((0, 0b1), (1, 0b1)), room_of(2, 2), EVERYWHERE, Consolidated()) is None


def test_gandiva_spreads_no_gang_that_fits_on_a_node() -> None:
    stage = Stage(POLICIES["gandiva"](), 2, 2)
    stage.submit(0.0, "a", "b", "c", min_run_s=1e6)
    stage.tell(1.0, Finished("a", 1))
    stage.submit(2.0, "gang", gang_size=2)
    assert stage.scheduler.ledger.free_counts == [1, 1]
    assert "gang" not in stage.running
    stage.tell(3.0, Finished("c", 1))
    assert stage.job("gang").allocation == ((1, 0b11),)


def test_a_gang_that_is_too_large_for_one_node_goes_home_though_it_is_spread() -> None:
    large = that_ran_on((0, 0b11), (1, 0b11), skew=0.5)
    assert home_of(large, room_of(2, 2), EVERYWHERE, Compact()) == ((0, 2), (1, 2))


def test_those_at_the_end_of_the_line_make_way_and_only_those_that_are_in_the_way() -> None:
    class Standing:
        def __init__(self, *placement: tuple[int, int]) -> None:
            self.job, self.placement = that_ran_on(), placement

    first, elsewhere, last = Standing((0, 1)), Standing((1, 2)), Standing((0, 1))
    room = room_of(2, 2)
    room.take(((0, 2), (1, 2)))
    assert make_way_home(((0, 1),), room, [first, elsewhere, last]) == [last]
    assert make_way_home(((0, 2),), room, [first, elsewhere, last]) == [last, first]
    assert make_way_home(((0, 2),), room, [elsewhere, last]) is None


def home(stage: Stage) -> None:
    """a on n0, b on n1; then a waits."""
    stage.submit(0.0, "a")
    stage.submit(1.0, "b")
    assert [stage.job(name).allocation for name in "ab"] == [((0, 1),), ((1, 1),)]


def test_a_job_resumes_where_it_was_though_another_place_is_free_as_well() -> None:
    stage = Stage(turns(), 1, 1)
    home(stage)
    stage.submit(2.0, "c", "d")
    stage.tell(20.0)  # c and d run now
    stage.tell(21.0, *(Held(name) for name in "ab"))
    stage.tell(22.0, *(Finished(name, stage.job(name).generation) for name in "cd"))
    stage.tell(23.0, Released("b"))
    assert stage.job("b").allocation == ((1, 1),)


def test_it_goes_elsewhere_rather_than_wait_for_its_home() -> None:
    stage = Stage(turns(), 1, 1)
    home(stage)
    stage.submit(2.0, "c", "d")
    stage.tell(20.0)
    stage.tell(21.0, Held("a"))
    on_the_other = next(name for name in "cd" if stage.job(name).allocation == ((0, 1),))
    stage.tell(22.0, Finished(on_the_other, 1))
    assert stage.job("b").allocation == ((0, 1),)


def test_a_home_on_a_node_that_is_lost_or_blocked_is_none() -> None:
    stage = Stage(turns(), 1, 1)
    home(stage)
    stage.tell(5.0, NodeLost("n1"))
    stage.tell(6.0, NodeJoined(Node("n2", 1)), DevicesBlocked("n0", 0))
    assert stage.job("b").allocation == ((2, 1),)
