"""A guest that is held back beside a holder that leaves nothing idle leaves, and nobody sits there for a while."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from sharing_words import GB, Stage, told

from weft.core.commands import Seat, Unseat
from weft.core.events import Finished, Grown, Measured
from weft.core.values import JobClass
from weft.policies.registry import POLICIES
from weft.policies.share.opportunistic import StarvationGuard


def filled(policy: str = "antman", sizes: tuple[int, ...] = (1,)) -> Stage:
    """The guest was alone once, at 4 steps a second; since 120 s at the latest it fills what the holder leaves idle."""
    stage = Stage(POLICIES[policy](), *sizes)
    stage.submit(0.0, "guest", memory_bytes=2 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "guest", rate_hz=4.0, utilisation=0.8)
    stage.submit(30.0, *(f"holder{at}" for at in range(sum(sizes))), memory_bytes=2 * GB)
    assert stage.running == {f"holder{at}" for at in range(sum(sizes))}
    for at in range(sum(sizes)):
        stage.measure(50.0 + at, f"holder{at}", utilisation=0.3 + 0.1 * at)
    stage.tell(120.0)
    assert stage.seated["guest"].is_throttled
    return stage


@pytest.mark.parametrize("policy", ["antman", "weft"])
def test_a_guest_that_gets_next_to_nothing_leaves_with_a_reason(policy: str) -> None:
    stage = filled(policy)
    assert told(stage.measure(150.0, "guest", rate_hz=0.04, neighbours=("holder0",))) == [
        "unseat guest: starved: beside holder0 it made 1.0% of its speed alone"
    ]


def test_one_that_gets_a_tenth_stays() -> None:
    stage = filled()
    assert told(stage.measure(150.0, "guest", rate_hz=0.4, neighbours=("holder0",))) == [
        "tell guest: beside holder0: 10% of its speed alone"
    ]


def test_what_was_measured_beside_an_earlier_holder_says_nothing_of_this_one() -> None:
    stage = filled()
    assert told(stage.measure(150.0, "guest", rate_hz=0.04, neighbours=("somebody",))) == []


def test_nobody_sits_beside_that_holder_until_its_back_off_ends() -> None:
    stage = filled()
    stage.measure(150.0, "guest", rate_hz=0.04, neighbours=("holder0",))
    stage.tell(749.0)
    assert not stage.seated
    stage.tell(770.0)
    assert "guest" in stage.seated
    stage.measure(780.0, "guest", rate_hz=0.04, neighbours=("holder0",))
    stage.tell(1900.0)
    assert not stage.seated  # twice as long the second time


def test_it_sits_beside_another_holder_at_the_next_look() -> None:
    stage = filled(sizes=(2,))
    assert stage.seated["guest"].allocation == stage.job("holder0").allocation
    stage.measure(150.0, "guest", rate_hz=0.04, neighbours=("holder0",))
    stage.tell(170.0)
    assert stage.seated["guest"].allocation == stage.job("holder1").allocation


def test_a_guest_of_which_nothing_is_heard_leaves_though_nothing_happens() -> None:
    stage = filled()
    seated_s = next(now for now, one in stage.log if isinstance(one, Seat))
    stage.tell(seated_s + 299.0)
    assert stage.seated
    stage.tell(seated_s + 301.0)
    assert [now for now, one in stage.log if isinstance(one, Unseat)] == [seated_s + 300.0]
    assert stage.lines[-1] == "unseat guest: starved: beside holder0 it made almost no progress for 5 min"


def test_a_guest_of_long_steps_is_given_the_time_for_ten_of_them_at_the_least_rate() -> None:
    stage = Stage(POLICIES["antman"](), 1)
    stage.submit(0.0, "guest", memory_bytes=2 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "guest", rate_hz=0.5, utilisation=0.8)
    stage.submit(30.0, "holder", memory_bytes=2 * GB)
    stage.measure(50.0, "holder")
    stage.tell(120.0)
    stage.tell(700.0)
    assert stage.seated
    stage.tell(800.0)
    assert not stage.seated


def test_a_guest_that_was_never_measured_alone_is_waited_for_four_times_as_long() -> None:
    stage = Stage(POLICIES["antman"](), 1)
    stage.submit(0.0, "holder", memory_bytes=2 * GB)
    stage.submit(0.0, "guest", memory_bytes=2 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "holder")
    stage.tell(60.0)
    seated_s = next(now for now, one in stage.log if isinstance(one, Seat))
    stage.tell(seated_s + 1199.0)
    assert stage.seated
    stage.tell(seated_s + 1201.0)
    assert not stage.seated


def test_a_guest_of_which_nothing_was_heard_while_nobody_held_its_device_is_watched_on() -> None:
    seat = SimpleNamespace(allocation=((0, 1),), is_throttled=True)
    guest = SimpleNamespace(id="guest", seating=seat, generation=1, measured=None, alone=None)
    holder = SimpleNamespace(id="holder", allocation=((0, 1),))

    def at(now: float, **running: object) -> Any:
        seated = {"guest": guest}
        return SimpleNamespace(now=now, jobs=seated, seated=seated, running=running, changes=())

    starving = StarvationGuard()
    starving.watch_all(at(0.0))
    assert starving.withdrawn(at(1200.0)) == []
    assert starving.next_look_s == 1500.0
    assert [each.job_id for each in starving.withdrawn(at(1500.0, holder=holder))] == ["guest"]


def test_a_guest_that_was_heard_of_is_not_waited_for() -> None:
    stage = filled()
    stage.measure(150.0, "guest", rate_hz=2.0, neighbours=("holder0",))
    stage.tell(2000.0)
    assert stage.seated


def test_who_has_grown_is_not_judged_by_what_it_made_at_an_earlier_seat() -> None:
    stage = filled()
    stage.measure(150.0, "guest", rate_hz=0.04, neighbours=("holder0",))
    assert not stage.seated
    stage.tell(1000.0)
    assert stage.seated, "the back-off is over"
    stage.tell(1001.0, Grown("guest", stage.job("guest").generation, GB, 2 * GB))
    assert stage.seated


def test_a_guest_that_ended_in_time_is_forgotten() -> None:
    stage = filled()
    stage.tell(150.0, Finished("guest", stage.job("guest").generation), Measured("holder0", 1, 1.0, 0.3, GB, GB))
    assert stage.wake_at > 1e9
