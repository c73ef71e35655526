"""Away from interference: a guest is parted from those beside whom it computes, if that pays and it may be moved."""

from __future__ import annotations

import pytest
from sharing_words import GB, Stage, filling, told

from weft.core.commands import Start
from weft.core.events import Finished, NodeJoined, NodeLost
from weft.core.values import JobClass, Node
from weft.policies.migrate.migration import Migration
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import Fifo
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.lanes import Lanes
from weft.policies.share.packing import Packing

VACATED = NodeJoined(Node("n1", 1, "any", 16 * GB))


def packing(cost_s: float | None = 30.0) -> Policy:
    """Turns that are long; with None nobody is moved for a gain."""
    return Policy(GandivaOrder(1000.0, 1e9), share=Packing(), migration=None if cost_s is None else Migration(cost_s))


def packed_pair(policy: Policy | None = None, speed: float = 0.6, **described: object) -> Stage:
    """b holds the only device; a, which has run 25 s and alone makes 4 steps a second, sits beside it since 120 s.

    Each makes this part of its steps alone; both were measured by 153 s.
    """
    stage = Stage(policy or packing(), 1)
    stage.submit(0.0, "a", **described)
    stage.measure(20.0, "a", rate_hz=4.0)
    stage.submit(25.0, "b", **described)
    stage.measure(120.0, "b", rate_hz=2.0)
    stage.tell(140.0)
    stage.measure(152.0, "a", rate_hz=4.0 * speed, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=2.0 * speed, neighbours=("a",))
    assert (stage.running, set(stage.seated)) == ({"b"}, {"a"})
    return stage


def test_a_guest_is_parted_from_its_holder_when_a_device_is_vacated() -> None:
    stage = packed_pair()
    assert told(stage.tell(160.0, VACATED)) == [
        "start a: migrated: to a device of its own, away from b: it had 0.60× of one"
    ]
    assert stage.job("a").allocation == ((1, 1),)
    assert stage.job("b").allocation == ((0, 1),)


def test_what_parting_gained_is_measured_and_told() -> None:
    stage = packed_pair()
    stage.tell(160.0, VACATED)
    assert told(stage.measure(200.0, "a", rate_hz=4.0)) == ["tell a: migrated: +67% measured"]


def test_a_measure_beside_a_new_guest_says_nothing_of_what_parting_gained() -> None:
    stage = packed_pair()
    stage.tell(160.0, VACATED)
    assert told(stage.measure(200.0, "a", rate_hz=2.0, neighbours=("c",))) == []
    assert told(stage.measure(260.0, "a", rate_hz=4.0)) == []


def test_a_guest_is_parted_only_when_that_gains_more_than_it_costs() -> None:
    """Together they lack 0.8 of a device: 80 s are made good in 60 s of the guest's run.

    Of these it had 25 s before, 16 s by what is expected of a seat, and has the rest at the 0.6 measured at 152 s."""
    stage = packed_pair(packing(80.0))
    assert told(stage.tell(160.0, VACATED)) == []
    reason = stage.scheduler.reason("a", 160.0)
    assert str(reason) == "stays a guest on its present devices: a move costs 80.0 s, more than it would gain by now"
    stage.tell(300.0)
    (at_s,) = [now for now, command in stage.log if "to a device of its own" in "".join(told([command]))]
    assert at_s == pytest.approx(152.0 + 19.0 / 0.6)


def test_two_who_do_not_slow_each_other_are_left_together_and_the_next_in_line_has_the_device() -> None:
    stage = packed_pair(speed=1.0)
    stage.tell(160.0, VACATED)
    stage.tell(2000.0)
    assert set(stage.seated) == {"a"}
    stage.submit(2001.0, "c", may_share=False)
    assert stage.job("c").allocation == ((1, 1),)
    assert set(stage.seated) == {"a"}


@pytest.mark.parametrize("cost_s", [30.0, None])
def test_a_guest_that_is_not_to_be_moved_stays_where_it_sits(cost_s: float | None) -> None:
    stage = packed_pair(packing(cost_s), may_migrate=False)
    stage.tell(160.0, VACATED)
    stage.tell(900.0)
    assert set(stage.seated) == {"a"}
    assert str(stage.scheduler.reason("a", 900.0)) == "stays a guest on its present devices: it is not to be moved"


def test_it_gets_the_devices_where_it_sits_when_they_become_free() -> None:
    stage = packed_pair(may_migrate=False)
    stage.tell(160.0, VACATED)
    stage.tell(200.0, Finished("b", stage.job("b").generation))
    assert stage.job("a").allocation == ((0, 1),)


def test_it_starts_elsewhere_when_it_has_lost_its_seat() -> None:
    stage = packed_pair(may_migrate=False)
    stage.tell(160.0, VACATED)
    stage.tell(200.0, NodeLost("n0"))
    stage.tell(5000.0)
    assert any(isinstance(one, Start) and (one.job_id, one.allocation) == ("a", ((1, 1),)) for _, one in stage.log)


def held_back(**described: object) -> Stage:
    stage = Stage(filling(migration=Migration(1e6)), 1)
    stage.submit(0.0, "holder", memory_bytes=2 * GB)
    stage.submit(0.0, "guest", memory_bytes=2 * GB, **described)
    stage.measure(20.0, "holder", utilisation=0.5)
    stage.tell(60.0)
    assert stage.seated["guest"].is_throttled
    return stage


def test_who_is_held_back_gets_a_device_of_its_own_whatever_a_move_costs() -> None:
    stage = held_back()
    stage.tell(100.0, VACATED)
    assert stage.job("guest").allocation == ((1, 1),)
    assert stage.lines[-1] == "start guest: migrated: to a device of its own: it had 0.30× of one"


def test_who_is_held_back_and_not_to_be_moved_stays() -> None:
    stage = held_back(may_migrate=False)
    stage.tell(100.0, VACATED)
    assert set(stage.seated) == {"guest"}


def in_lanes(from_scratch: bool) -> Policy:
    return Policy(Fifo(strict=False), share=Lanes(), migration=Migration(1e6), from_scratch=from_scratch)


@pytest.mark.parametrize("from_scratch", [False, True])
def test_of_two_guests_that_are_not_to_be_moved_one_gets_the_device_and_the_other_goes_on_beside_it(
    from_scratch: bool,
) -> None:
    """They take turns beside h1, and n0 becomes free as well."""
    stage = Stage(in_lanes(from_scratch), 1, 1)
    stage.submit(0.0, "h0", "h1", memory_bytes=GB)
    stage.submit(1.0, "x", "a", "y", "b", memory_bytes=GB, may_migrate=False)
    assert {name: seat.allocation for name, seat in stage.seated.items()} == {
        "x": ((0, 1),),
        "a": ((1, 1),),
        "y": ((0, 1),),
        "b": ((1, 1),),
    }
    stage.tell(2.0, Finished("x", stage.job("x").generation), Finished("y", stage.job("y").generation))
    stage.tell(10.0, Finished("h0", 1), Finished("h1", 1))
    assert stage.job("a").allocation == ((1, 1),)
    assert stage.seated["b"].allocation == ((1, 1),)
    stage.tell(20.0, Finished("a", stage.job("a").generation))
    assert stage.job("b").allocation == ((1, 1),)


def held_back_on_the_second_node(**described: object) -> Stage:
    """Of antman, whose line knows no home."""
    stage = Stage(POLICIES["antman"](), 1, 1)
    stage.submit(0.0, "busy", "quiet", memory_bytes=GB)
    stage.submit(1.0, "guest", memory_bytes=GB, **described)
    stage.measure(20.0, "busy", utilisation=0.9)
    stage.measure(21.0, "quiet", utilisation=0.3)
    stage.tell(60.0)
    assert stage.seated["guest"].allocation == stage.job("quiet").allocation == ((1, 1),)
    return stage


@pytest.mark.parametrize("may_migrate", [False, True])
def test_a_guest_is_granted_its_seat_though_another_device_is_free_that_is_as_good(may_migrate: bool) -> None:
    stage = held_back_on_the_second_node(may_migrate=may_migrate)
    stage.tell(100.0, Finished("busy", 1), Finished("quiet", 1))
    assert stage.job("guest").allocation == ((1, 1),)


def test_who_comes_before_a_guest_does_not_pick_the_device_on_which_that_one_sits() -> None:
    """first ran on device 0, where the guest sits by now; both devices become free at once."""
    stage = Stage(POLICIES["antman"](), 2)
    stage.submit(0.0, "holder", "other", memory_bytes=GB)
    stage.submit(1.0, "guest", memory_bytes=GB, job_class=JobClass.OPPORTUNISTIC, may_migrate=False)
    stage.measure(20.0, "holder", utilisation=0.3)
    stage.submit(30.0, "first", may_share=False)
    stage.tell(60.0)
    assert stage.seated["guest"].allocation == stage.job("holder").allocation == ((0, 0b01),)
    stage.tell(100.0, Finished("holder", 1), Finished("other", 1))
    assert (stage.job("first").allocation, stage.job("guest").allocation) == (((0, 0b10),), ((0, 0b01),))
