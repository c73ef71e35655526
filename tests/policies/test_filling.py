"""AntMan's filling: who waits uses what the holder of a device leaves idle, and the holder hardly feels it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from policy_helpers import by_id, cluster, job, run
from sharing_words import GB, Stage, filling, told

from weft.core.errors import InputError
from weft.core.events import Finished, Measured
from weft.core.values import JobClass
from weft.policies.registry import POLICIES
from weft.sim.colocation import Fitted
from weft.sim.world import World


def a_holder_of(utilisation: float, **parameters: float) -> Stage:
    """On one device, with a guest of known memory that waits; the holder was measured at 20 s."""
    stage = Stage(filling(**parameters), 1)
    stage.submit(0.0, "holder", "guest", memory_bytes=2 * GB)
    stage.measure(20.0, "holder", utilisation=utilisation)
    stage.tell(60.0)
    return stage


def test_a_waiting_job_uses_what_the_holder_leaves_idle() -> None:
    stage = a_holder_of(0.5)
    assert stage.lines[-1] == "seat guest: uses what holder leaves idle"
    assert (stage.seated["guest"].is_throttled, stage.seated["guest"].lane) == (True, 0)
    assert stage.seated["guest"].speed == pytest.approx(0.3)  # of a half idle, as far as is known of a busy guest


@pytest.mark.parametrize(
    ("utilisation", "busy", "is_seated"), [(0.79, 0.8, True), (0.8, 0.8, False), (0.3, 0.2, False)]
)
def test_a_busy_device_has_nothing_to_give_away(utilisation: float, busy: float, is_seated: bool) -> None:
    assert bool(a_holder_of(utilisation, busy=busy).seated) is is_seated


def test_beside_a_holder_that_was_not_measured_alone_nobody_sits() -> None:
    stage = Stage(filling(), 1)
    stage.submit(0.0, "holder", "guest", memory_bytes=2 * GB)
    stage.tell(200.0)
    assert not stage.seated


def test_a_guest_of_unknown_memory_does_not_sit() -> None:
    stage = Stage(filling(), 1)
    stage.submit(0.0, "holder", "guest")
    stage.measure(20.0, "holder")
    stage.tell(60.0)
    assert not stage.seated


def test_nobody_sits_on_a_device_of_unknown_memory() -> None:
    stage = Stage(filling(), 1, memory_bytes=None)
    stage.submit(0.0, "holder", "guest", memory_bytes=2 * GB)
    stage.measure(20.0, "holder")
    stage.tell(60.0)
    assert not stage.seated


@pytest.mark.parametrize(("guests", "seated"), [(1, {"b"}), (2, {"b", "c"}), (3, {"b", "c", "d"})])
def test_no_more_guests_than_are_allowed_sit_beside_one_holder(guests: int, seated: set[str]) -> None:
    stage = Stage(filling(guests=guests), 1)
    stage.submit(0.0, "a", "b", "c", "d", memory_bytes=2 * GB)
    stage.measure(20.0, "a")
    for now in (40.0, 60.0, 80.0, 100.0):
        stage.tell(now)
        stage.measure(now + 1.0, "a", neighbours=tuple(sorted(stage.seated)))
    assert set(stage.seated) == seated


def test_a_guest_is_promoted_in_place_when_its_holder_has_ended() -> None:
    stage = a_holder_of(0.5)
    commands = stage.tell(90.0, Finished("holder", 1))
    assert told(commands) == ["start guest: starts on 1 of 1 free devices"]
    assert (stage.running, stage.seated) == ({"guest"}, {})


def test_the_quietest_guest_sits_beside_the_quietest_holder() -> None:
    stage = Stage(filling(), 2)
    stage.submit(0.0, "busier", "quieter", memory_bytes=2 * GB)
    stage.submit(1.0, "guest", memory_bytes=2 * GB)
    stage.tell(20.0, *(Measured(name, 1, 1.0, busy, GB, GB) for name, busy in (("busier", 0.7), ("quieter", 0.1))))
    stage.tell(60.0)
    assert stage.seated["guest"].allocation == stage.job("quieter").allocation


def test_in_a_simulated_cluster_the_holder_runs_as_if_alone_and_the_guest_gets_much_of_the_rest() -> None:
    world = World(
        "half",
        counts_only=False,
        preemption_s=0.0,
        speed={"any": 1.0},
        memory={"any": 100},
        unknown_memory=((10, 10),),
        unknown_utilisation=((0.5, 1.0),),
        interference=Fitted(0.2),
    )
    jobs = [
        replace(one, spec=replace(one.spec, memory_bytes=20)) for one in (job("holder", 0, 1000), job("guest", 0, 1000))
    ]
    finish_s = by_id(run(jobs, cluster((1, 1, "any")), filling(), world), "finish_s")
    assert finish_s["holder"] < 1000.0 / 0.98
    assert finish_s["guest"] < 1500.0  # one after the other: 2000


@pytest.mark.parametrize("parameters", [{"busy": 0.0}, {"busy": 1.1}, {"guests": 0}])
def test_values_that_make_no_sense_are_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(InputError, match="filling takes a busy above 0"):
        POLICIES["antman"](**parameters)


def beside_a_gang(policy: str, **holder: Any) -> Stage:
    """A gang of 4, half of whose time is idle, on two nodes; guests of 1, 1, 2 and 3 devices wait."""
    stage = Stage(POLICIES[policy](), 2, 2)
    stage.submit(0.0, "gang", gang_size=4, memory_bytes=2 * GB, **holder)
    for name, size in (("a", 1), ("b", 1), ("two", 2), ("three", 3)):
        stage.submit(1.0, name, gang_size=size, memory_bytes=2 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "gang", utilisation=0.5)
    stage.tell(60.0)
    return stage


@pytest.mark.parametrize("policy", ["antman", "weft"])
def test_smaller_jobs_fill_what_single_devices_of_a_gang_leave_idle(policy: str) -> None:
    stage = beside_a_gang(policy)
    assert {name: seat.allocation for name, seat in stage.seated.items()} == {
        "two": ((0, 0b11),),
        "a": ((1, 0b01),),
        "b": ((1, 0b10),),
    }, "who needs three would be spread over nodes"
    assert all(seat.is_throttled and not seat.lane for seat in stage.seated.values())


def test_nobody_fills_a_part_of_a_gang_that_does_not_share() -> None:
    assert not beside_a_gang("antman", may_share=False).seated


def test_on_a_device_of_a_gang_sits_one_and_memory_is_counted_for_each() -> None:
    stage = Stage(POLICIES["antman"](), 2, memory_bytes=4 * GB)
    stage.submit(0.0, "gang", gang_size=2, memory_bytes=2 * GB)
    large, small = ("large", 3 * GB), (("a", 2 * GB), ("b", 2 * GB), ("c", 2 * GB))
    for name, memory_bytes in (large, *small):
        stage.submit(1.0, name, memory_bytes=memory_bytes, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "gang", utilisation=0.5)
    stage.tell(60.0)
    assert set(stage.seated) == {"a", "b"}


def test_who_sits_on_a_part_and_gets_nothing_leaves() -> None:
    stage = beside_a_gang("antman")
    guest = stage.job("a")
    guest.alone, guest.alone_on = Measured("a", guest.generation, 10.0, 0.5, GB, GB), ("any", 1)
    stage.measure(80.0, "a", rate_hz=0.01, neighbours=("gang",))
    assert "unseat a: starved: beside gang it made 0.1% of its speed alone" in stage.lines


UNFIT: dict[str, dict[str, Any]] = {
    "does not share": {"may_share": False},
    "of another type": {"device_types": frozenset({"other"})},
    "too large": {"memory_bytes": 16 * GB},
}


@pytest.mark.parametrize("unfit", UNFIT.values(), ids=UNFIT)
def test_many_who_fit_nowhere_shut_nobody_out(unfit: dict[str, Any]) -> None:
    stage = Stage(filling(), 1)
    stage.submit(0.0, "holder", memory_bytes=2 * GB)
    stage.submit(1.0, *(f"unfit{i}" for i in range(100)), **{"memory_bytes": 2 * GB, **unfit})
    stage.submit(2.0, "guest", memory_bytes=2 * GB)
    stage.measure(20.0, "holder", utilisation=0.5)
    stage.tell(60.0)
    assert set(stage.seated) == {"guest"}


def test_many_who_fit_only_beside_a_busy_holder_shut_nobody_out() -> None:
    stage = Stage(filling(), 2)
    stage.submit(0.0, "small", memory_bytes=2 * GB)
    stage.submit(0.0, "quiet", memory_bytes=12 * GB)
    stage.submit(1.0, *(f"large{i}" for i in range(100)), memory_bytes=8 * GB)
    stage.submit(2.0, "guest", memory_bytes=2 * GB)
    stage.measure(20.0, "small", utilisation=0.9, memory_bytes=(GB, GB))
    stage.measure(21.0, "quiet", utilisation=0.3, memory_bytes=(GB, 11 * GB))
    stage.tell(60.0)
    assert set(stage.seated) == {"guest"}


def test_many_who_fit_on_no_part_of_a_gang_shut_nobody_out_of_it() -> None:
    stage = Stage(POLICIES["antman"](), 2)
    stage.submit(0.0, "gang", gang_size=2, memory_bytes=4 * GB)
    stage.submit(1.0, *(f"large{i}" for i in range(100)), memory_bytes=16 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.submit(2.0, "guest", memory_bytes=2 * GB, job_class=JobClass.OPPORTUNISTIC)
    stage.measure(20.0, "gang", utilisation=0.5)
    stage.tell(60.0)
    assert set(stage.seated) == {"guest"}
