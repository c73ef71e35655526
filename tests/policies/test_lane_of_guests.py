"""A lane for the guests of one holder: quiet jobs take turns in what it leaves idle, where memory allows only that."""

from __future__ import annotations

import pytest
from policy_helpers import by_id, cluster, job, run
from sharing_words import GB, Stage

from weft.core.events import Finished, Measured
from weft.core.reasons import Code
from weft.policies.registry import POLICIES
from weft.policies.share.mixed import MixedSharing
from weft.sim.colocation import Fitted
from weft.sim.world import World

BIG = (GB, 5 * GB)
"""P and T: beside a holder of 2 GB one fits a device of 16 GB, and three take turns, but two side by side never fit."""


def many(*names: str, utilisation: float = 0.2, memory_bytes: tuple[int, int] = BIG, **described: object) -> Stage:
    """On one device, a quiet guaranteed holder and others that have run, are quiet, and have lost it to the holder."""
    stage = Stage(POLICIES["weft"](), len(names), memory_bytes=13 * GB)
    stage.scheduler.ledger.tenants.quotas = {"gold": len(names)}
    stage.submit(0.0, *names, tenant="poor", **described)
    stage.measure(20.0, *names, utilisation=utilisation, memory_bytes=memory_bytes)
    blocking = [f"blocking{at}" for at in range(len(names) - 1)]
    stage.submit(30.0, *blocking, tenant="gold", may_share=False)
    stage.submit(31.0, "holder", tenant="gold")
    stage.measure(50.0, "holder", utilisation=0.1, memory_bytes=(GB, GB))
    for now in (70.0, 90.0, 110.0, 130.0):
        stage.tell(now)
        stage.measure(now + 1.0, "holder", utilisation=0.1, memory_bytes=(GB, GB), neighbours=tuple(stage.seated))
    return stage


def test_guests_that_fit_only_in_turns_share_a_lane_and_the_holder_is_in_none() -> None:
    stage = many("a", "b", "c")
    assert {name: (seat.lane, seat.is_throttled) for name, seat in stage.seated.items()} == dict.fromkeys(
        "abc", (1, True)
    )
    assert stage.job("holder").lane == 0


def test_the_first_guest_sits_in_no_lane_until_another_joins_it() -> None:
    assert many("a").seated["a"].lane == 0


def test_the_time_that_one_guest_left_is_split_among_all() -> None:
    speeds = [one.speed for one in many("a", "b", "c", utilisation=0.25).seated.values()]
    assert all(speed <= 1.0 for speed in speeds)
    assert min(speeds) == pytest.approx(0.6 * 0.9 / 3 / 0.25)


def test_who_is_moved_into_a_lane_has_what_the_one_that_joins_it_leaves() -> None:
    speeds = {name: one.speed for name, one in many("a", "b", utilisation=0.35).seated.items()}
    assert speeds == pytest.approx(dict.fromkeys("ab", 0.6 * 0.9 / 2 / 0.35))


@pytest.mark.parametrize(("utilisation", "seated"), [(0.2, 3), (0.3, 2), (0.6, 1)])
def test_no_more_join_than_there_is_time_for(utilisation: float, seated: int) -> None:
    assert len(many("a", "b", "c", utilisation=utilisation).seated) == seated


def test_what_lasts_of_all_of_them_must_fit_at_once() -> None:
    assert len(many("a", "b", "c", memory_bytes=(5 * GB, GB)).seated) == 2


def test_who_does_not_share_joins_no_lane() -> None:
    assert not many("a", "b", may_share=False).seated


def test_a_gang_does_not_take_turns() -> None:
    stage = Stage(POLICIES["weft"](), 2)
    stage.scheduler.ledger.tenants.quotas = {"gold": 2}
    for name in ("a", "b"):
        stage.submit(stage.now, name, gang_size=2, tenant="poor")
        stage.measure(stage.now + 20.0, *stage.running, utilisation=0.2)
    stage.submit(60.0, "holder", gang_size=2, tenant="gold")
    stage.measure(80.0, "holder", utilisation=0.1)
    for now in (100.0, 120.0, 140.0):
        stage.tell(now)
    assert {seat.lane for seat in stage.seated.values()} <= {0}


def test_when_one_of_them_is_given_the_device_it_waits_for_nobodys_turn() -> None:
    stage = many("a", "b", "c")
    stage.tell(140.0, Finished("holder", stage.job("holder").generation))
    [holder] = [name for name in stage.running if name in "abc"]
    assert len(stage.seated) == 2
    assert all(seat.lane != stage.job(holder).lane and seat.is_throttled for seat in stage.seated.values())
    assert {one.lane for one in stage.seated.values()} == {2}


def test_without_room_for_its_own_step_beside_theirs_the_others_leave() -> None:
    stage = many("a", "b", "c", memory_bytes=(GB, 7 * GB))
    assert len(stage.seated) == 3
    stage.tell(140.0, Finished("holder", stage.job("holder").generation))
    assert not stage.seated
    left = [one.reason.code for _, one in stage.log if type(one).__name__ == "Unseat"]
    assert left[-2:] == [Code.SEAT_TAKEN] * 2


SMALL = World(
    "small",
    counts_only=False,
    preemption_s=0.0,
    speed={"any": 1.0},
    memory={"any": 12},
    unknown_memory=((1, 3),),
    unknown_utilisation=((0.15, 1.0),),
    interference=Fitted(0.1),
)


def test_many_small_peers_end_sooner_beside_a_packed_pair_in_turns_than_in_pairs_alone() -> None:
    """Of 12 GB, holder and peer take 8 at most; for two more side by side there is no room, for any number in turns."""
    jobs = [job(f"j{at}", 5.0 * at, 600.0) for at in range(10)]
    makespan_s = {}
    for has_lanes in (True, False):
        policy = POLICIES["weft"]()
        assert isinstance(policy.share, MixedSharing)
        policy.share.has_lanes = has_lanes
        makespan_s[has_lanes] = max(by_id(run(jobs, cluster((1, 1, "any")), policy, SMALL), "finish_s").values())
    assert makespan_s[True] < 0.7 * makespan_s[False]


def test_antman_has_no_lanes() -> None:
    stage = Stage(POLICIES["antman"](guests=3), 1)
    stage.submit(0.0, "holder", "b", "c", memory_bytes=2 * GB)
    stage.tell(20.0, Measured("holder", 1, 1.0, 0.1, GB, GB))
    for now in (40.0, 60.0, 80.0):
        stage.tell(now)
    assert {seat.lane for seat in stage.seated.values()} == {0}
