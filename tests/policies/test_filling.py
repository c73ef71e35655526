"""AntMan's filling: who waits uses what the holder of a device leaves idle, and the holder hardly feels it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from policy_helpers import by_id, cluster, job, run
from sharing_words import GB, Stage, told

from weft.core.errors import InputError
from weft.core.events import Finished, Measured
from weft.policies.order.arrival import Arrival
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.filling import Filling
from weft.sim.interference import Fitted
from weft.sim.world import World


def filling(**parameters: float) -> Policy:
    return Policy(Arrival(strict=False), share=Filling(**parameters))


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
