"""What came of a seat is told: to the guest, and to who holds the device, once; and again when it moves."""

from __future__ import annotations

from sharing_words import GB, Stage, told

from weft.core.events import Finished, Measured, Submitted
from weft.core.values import JobClass, JobSpec
from weft.policies.registry import antman, salus


def filled() -> Stage:
    """A guaranteed job with a guest that is held back for it."""
    stage = Stage(antman(), 1)
    stage.submit(0.0, "holder", memory_bytes=2 * GB)
    stage.submit(0.0, "guest", job_class=JobClass.OPPORTUNISTIC, memory_bytes=2 * GB)
    stage.measure(20.0, "holder", rate_hz=10.0, utilisation=0.4)
    stage.tell(60.0)
    assert stage.seated["guest"].is_throttled
    return stage


def test_a_guest_that_is_held_back_and_its_holder_are_told_once_what_they_make() -> None:
    stage = filled()
    assert told(stage.measure(80.0, "holder", rate_hz=9.9, neighbours=("guest",))) == [
        "tell holder: beside guest: 99% of its speed alone"
    ]
    assert told(stage.measure(81.0, "guest", rate_hz=2.5, neighbours=("holder",))) == [
        "tell guest: beside holder: 2.5 steps/s; its speed alone is not known"
    ]
    assert told(stage.measure(90.0, "holder", rate_hz=9.5, neighbours=("guest",))) == []
    assert told(stage.measure(91.0, "guest", rate_hz=2.4, neighbours=("holder",))) == []


def test_what_they_make_is_told_again_when_it_has_moved_by_a_twentieth_of_their_speed_alone() -> None:
    stage = filled()
    for at_s, rate_hz, told_of in ((80.0, 8.8, "88%"), (140.0, 9.2, ""), (200.0, 9.6, "96%"), (260.0, 9.9, "")):
        lines = told(stage.measure(at_s, "holder", rate_hz=rate_hz, neighbours=("guest",)))
        assert lines == ([f"tell holder: beside guest: {told_of} of its speed alone"] if told_of else [])


def test_it_is_told_again_when_its_speed_alone_turns_out_to_be_another() -> None:
    stage = filled()
    stage.measure(80.0, "holder", rate_hz=9.9, neighbours=("guest",))
    stage.measure(81.0, "holder", rate_hz=12.0)
    assert told(stage.measure(82.0, "holder", rate_hz=9.9, neighbours=("guest",))) == [
        "tell holder: beside guest: 82% of its speed alone"
    ]


def test_it_is_told_again_when_its_speed_alone_comes_to_be_known() -> None:
    stage = filled()
    stage.measure(81.0, "guest", rate_hz=2.5, neighbours=("holder",))
    stage.measure(82.0, "guest", rate_hz=5.0)
    assert told(stage.measure(83.0, "guest", rate_hz=2.5, neighbours=("holder",))) == [
        "tell guest: beside holder: 50% of its speed alone"
    ]


def test_a_guest_that_keeps_its_seat_under_another_holder_is_told_what_it_makes_there() -> None:
    stage = filled()
    stage.measure(81.0, "guest", rate_hz=2.5, neighbours=("holder",))
    generation = stage.job("guest").generation
    stage.submit(90.0, "next", memory_bytes=2 * GB)
    stage.tell(100.0, Finished("holder", stage.job("holder").generation))
    assert (stage.running, set(stage.seated)) == ({"next"}, {"guest"})
    assert stage.job("guest").generation == generation
    assert told(stage.measure(120.0, "guest", rate_hz=2.5, neighbours=("next",))) == [
        "tell guest: beside next: 2.5 steps/s; its speed alone is not known"
    ]


def test_of_who_was_measured_alone_before_it_is_told_what_part_of_that_it_makes() -> None:
    stage = Stage(antman(), 1)
    stage.submit(0.0, "guest", job_class=JobClass.OPPORTUNISTIC, memory_bytes=2 * GB)
    stage.measure(20.0, "guest", rate_hz=5.0)
    stage.submit(30.0, "holder", memory_bytes=2 * GB)
    assert stage.running == {"holder"}
    stage.measure(50.0, "holder", rate_hz=10.0, utilisation=0.4)
    stage.tell(90.0)
    assert told(stage.measure(99.0, "guest", rate_hz=2.0, neighbours=("holder",))) == [
        "tell guest: beside holder: 40% of its speed alone"
    ]


def test_who_has_just_lost_its_devices_is_told_nothing() -> None:
    stage = Stage(antman(), 1)
    stage.submit(0.0, "first", job_class=JobClass.OPPORTUNISTIC, memory_bytes=2 * GB)
    stage.measure(20.0, "first", utilisation=0.4)
    stage.submit(21.0, "second", job_class=JobClass.OPPORTUNISTIC, memory_bytes=2 * GB)
    stage.tell(60.0)
    assert set(stage.seated) == {"second"}
    measured = Measured("first", stage.job("first").generation, 1.0, 0.4, GB, GB, ("second",))
    lines = told(stage.tell(70.0, measured, Submitted(JobSpec("third", memory_bytes=2 * GB))))
    assert stage.running == {"third"}
    assert not any(line.startswith("tell first") for line in lines)


def test_what_was_measured_at_another_seat_says_nothing_of_this_one() -> None:
    stage = filled()
    stage.measure(80.0, "holder", rate_hz=9.9, neighbours=("guest",))
    assert told(stage.measure(81.0, "holder", rate_hz=9.9)) == [], "it was alone meanwhile"


def test_who_shares_a_lane_is_told_what_it_makes_there() -> None:
    stage = Stage(salus(), 1)
    names = [f"m{i}" for i in range(6)]
    stage.submit(0.0, *names, memory_bytes=GB)
    assert len(stage.seated) == 5
    beside = {name: tuple(other for other in names if other != name) for name in names}
    assert told(stage.measure(10.0, "m0", rate_hz=1.5, neighbours=beside["m0"])) == [
        "tell m0: beside m1, m2, m3 and 2 more: 1.5 steps/s; its speed alone is not known"
    ]
    assert told(stage.measure(10.0, "m1", rate_hz=1.5, neighbours=beside["m1"])) != []
    stage.tell(20.0, Finished("m5", stage.job("m5").generation))
    assert told(stage.measure(30.0, "m0", rate_hz=1.6, neighbours=beside["m0"][:-1])) == [], "once for each seat"
