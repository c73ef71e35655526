"""Gandiva's packing: who leaves a device idle is packed with another, measured, and kept or undone."""

from __future__ import annotations

import pytest
from policy_helpers import by_id, cluster, job, run
from sharing_words import GB, Stage, told

from weft.core.commands import Seat
from weft.core.errors import InputError
from weft.core.events import Cancelled, Held, Measured, NodeJoined, NodeLost, Released, Submitted
from weft.core.values import JobSpec, Node
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import Fifo
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.policies.share.packing import Packing
from weft.policies.share.seat_review import BackOffs
from weft.sim.colocation import Fitted
from weft.sim.world import World


def packing(quantum_s: float = 1e6, **parameters: float) -> Policy:
    """With a quantum so long that nobody takes turns unless it is told."""
    return Policy(GandivaOrder(quantum_s, 1e9), share=Packing(**parameters))


def two_in_turns(policy: Policy | None = None, **described: object) -> Stage:
    """On one device: a has run alone for 25 s, at 4 steps a second, and since then b does, which is new."""
    stage = Stage(policy or packing(quantum_s=1000.0), 1)
    stage.submit(0.0, "a", **described)
    stage.measure(20.0, "a", rate_hz=4.0)
    stage.submit(25.0, "b", **described)
    stage.tell(100.0)
    assert stage.running == {"b"}
    return stage


def test_a_job_that_was_never_measured_alone_is_not_packed() -> None:
    stage = Stage(packing(), 1)
    stage.submit(0.0, "a", "b", memory_bytes=GB)
    stage.measure(20.0, "a")
    stage.tell(200.0)
    assert not stage.seated


def test_a_job_is_packed_once_both_were_measured_alone() -> None:
    stage = two_in_turns()
    stage.tell(119.0)
    assert not stage.seated
    stage.measure(120.0, "b", rate_hz=2.0)
    stage.tell(140.0)
    assert "seat a: packed with b, to be measured" in stage.lines
    assert (stage.seated["a"].lane, stage.seated["a"].is_throttled, stage.seated["a"].speed) == (0, False, 0.5)


def packed_pair(**parameters: float) -> Stage:
    """b holds the device and alone makes 2 steps a second; a, which alone makes 4, is packed with it by 140 s."""
    stage = two_in_turns(packing(1000.0, **parameters))
    stage.measure(120.0, "b", rate_hz=2.0)
    stage.tell(140.0)
    assert set(stage.seated) == {"a"}
    return stage


def test_nothing_is_decided_before_both_were_measured_together() -> None:
    stage = packed_pair()
    assert told(stage.measure(152.0, "a", rate_hz=0.1, neighbours=("b",))) == []


def test_a_pair_that_does_more_together_than_in_turns_is_kept_and_told_once() -> None:
    stage = packed_pair()
    stage.measure(152.0, "a", rate_hz=3.0, neighbours=("b",))
    assert told(stage.measure(153.0, "b", rate_hz=1.2, neighbours=("a",))) == [
        "tell a: packed with b: +35%, kept",
        "tell b: packed with a: +35%, kept",
    ]
    assert told(stage.measure(154.0, "b", rate_hz=1.3, neighbours=("a",))) == []
    assert set(stage.seated) == {"a"}


@pytest.mark.parametrize(("margin", "is_kept"), [(0.05, True), (0.2, False)])
def test_the_margin_decides_what_is_worth_it(margin: float, is_kept: bool) -> None:
    stage = packed_pair(margin=margin)
    stage.measure(152.0, "a", rate_hz=2.4, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=1.0, neighbours=("a",))  # 0.6 + 0.5
    assert (set(stage.seated) == {"a"}) is is_kept


def test_a_pair_that_was_kept_is_undone_when_it_no_longer_pays() -> None:
    stage = packed_pair()
    stage.measure(152.0, "a", rate_hz=3.0, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=1.2, neighbours=("a",))
    undone = stage.measure(160.0, "a", rate_hz=0.4, neighbours=("b",))
    assert told(undone) == ["unseat a: packed with b, undone: 0.70×"]


def test_it_is_said_after_how_many_steps_a_pair_was_undone() -> None:
    stage = packed_pair()
    stage.measure(152.0, "a", rate_hz=0.4, neighbours=("b",), steps=22)
    undone = stage.measure(153.0, "b", rate_hz=1.2, neighbours=("a",), steps=18)
    assert told(undone) == ["unseat a: packed with b, undone after 40 steps: 0.70×"]


def test_a_pair_that_does_less_is_undone_and_left_alone_twice_as_long_each_time() -> None:
    stage = packed_pair(back_off_s=100.0)
    tried_s, undone_s = [], []
    for now in range(150, 1000, 5):
        stage.tell(float(now))
        if not stage.seated:
            stage.measure(now + 0.5, *stage.running, rate_hz=2.0)  # there is news, or nobody would look again
        for guest in stage.seated:
            [holder] = stage.running
            tried_s.append(now)
            stage.measure(now + 1.0, guest, rate_hz=1.0, neighbours=(holder,))
            stage.measure(now + 2.0, holder, rate_hz=0.5, neighbours=(guest,))
            undone_s.append(now + 2)
            assert not stage.seated
    assert [again - before for again, before in zip(tried_s[1:4], undone_s, strict=False)] == pytest.approx(
        [100.0, 200.0, 400.0][: len(tried_s) - 1], abs=25.0
    )
    assert len(tried_s) >= 3


def compare(stage: Stage, window: int, a: float, b: float, error: float, now: float = 0.0) -> list[str]:
    """Both in one window; the ratios are to what each makes alone just then, under whatever load."""
    now = now or 150.0 + window
    first = stage.measure(now, "a", rate_hz=9 * a, alone_hz=9.0, neighbours=("b",), error=error, window=window, steps=9)
    then = stage.measure(
        now + 0.1, "b", rate_hz=7 * b, alone_hz=7.0, neighbours=("a",), error=error, window=window, steps=9
    )
    return [*told(first), *told(then)]


def test_what_is_kept_is_told_with_how_sure_that_is() -> None:
    stage = packed_pair()
    assert compare(stage, 1, 0.78, 0.6, error=0.03) == [
        "tell a: packed with b: +38% ± 6%, kept",
        "tell b: packed with a: +38% ± 6%, kept",
    ]


def test_what_is_undone_is_told_with_how_sure_that_is() -> None:
    stage = packed_pair()
    assert compare(stage, 1, 0.4, 0.48, error=0.02) == [
        "unseat a: packed with b, undone after 18 steps: 0.88× ± 0.04",
    ]


@pytest.mark.parametrize("ratios", [(1.2, 1.21), (2.4, 1.4), (1.5, 0.4)])
def test_more_than_the_jobs_could_make_is_a_bad_measurement_and_not_kept(ratios: tuple[float, float]) -> None:
    stage = packed_pair()
    said = compare(stage, 1, *ratios, error=0.01)
    times = f"{sum(ratios):.2f}×"
    assert said[0] == f"tell a: packed with b: {times} is impossible, a bad measurement: measure again (1 of 3)"
    assert not any("kept" in line for line in stage.lines)
    assert compare(stage, 2, 0.8, 0.8, error=0.01)[0] == "tell a: packed with b: +60% ± 2%, kept"


def test_what_is_not_measured_well_enough_is_measured_again_and_undone_after_so_many_tries() -> None:
    stage = packed_pair()
    said = [compare(stage, window, 0.6, 0.6, error=0.2) for window in (1, 2, 3)]
    assert said[0][0] == "tell a: packed with b: +20% ± 40%, not measured well enough: measure again (1 of 3)"
    assert said[1][0] == "tell a: packed with b: +20% ± 40%, not measured well enough: measure again (2 of 3)"
    assert said[2] == ["unseat a: packed with b, undone: not measured well enough in 3 tries"]


def test_one_comparison_is_counted_once_and_what_was_kept_stays_kept_when_in_doubt() -> None:
    stage = packed_pair()
    assert len(compare(stage, 1, 0.6, 0.6, error=0.2)) == 2
    for at_s in (160.0, 170.0, 180.0):  # the same numbers, told again for another reason
        assert compare(stage, 1, 0.6, 0.6, error=0.2, now=at_s) == []
    assert "kept" in compare(stage, 40, 0.8, 0.8, error=0.02)[0]
    for window in range(50, 60):
        assert compare(stage, window, 1.9, 1.9, error=0.02) == []
    assert set(stage.seated) == {"a"}


def test_rates_of_two_windows_are_not_added_up() -> None:
    stage = packed_pair()
    stage.measure(151.0, "a", rate_hz=9.0, alone_hz=9.0, neighbours=("b",), error=0.0, window=1)
    assert told(stage.measure(152.0, "b", rate_hz=7.0, alone_hz=7.0, neighbours=("a",), error=0.0, window=2)) == []


def test_a_rate_that_was_compared_with_nothing_says_nothing_of_a_pair() -> None:
    stage = packed_pair()
    for name, other in (("a", "b"), ("b", "a")):
        beside = Measured(name, stage.job(name).generation, 99.0, 0.3, GB, GB, (other,))
        assert told(stage.tell(151.0, beside)) == []


def test_a_guest_that_overstates_its_rate_does_not_stay_at_the_cost_of_its_holder() -> None:
    stage = packed_pair()
    assert compare(stage, 1, 1.05, 0.2, error=0.01) == ["unseat a: packed with b, undone after 18 steps: 1.25× ± 0.02"]


def undone_pair(**parameters: float) -> Stage:
    """Undone at 153 s; from then on nothing happens by itself."""
    stage = packed_pair(**parameters)
    stage.measure(152.0, "a", rate_hz=1.0, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=0.5, neighbours=("a",))
    assert not stage.seated
    return stage


def test_a_pair_that_was_undone_is_tried_again_when_its_back_off_ends_though_nothing_happens() -> None:
    stage = undone_pair(back_off_s=200.0)
    stage.tell(370.0)
    assert [now for now, command in stage.log if isinstance(command, Seat)][1:] == [353.0]


def test_nobody_is_woken_for_a_pair_of_which_one_is_gone() -> None:
    stage = undone_pair(back_off_s=200.0)
    stage.tell(180.0)
    assert stage.wake_at == 353.0
    stage.tell(190.0, Cancelled("a"))
    assert stage.wake_at > 1000.0


def test_what_was_measured_when_they_sat_together_before_says_nothing_of_now() -> None:
    stage = packed_pair(back_off_s=10.0)
    stage.measure(152.0, "a", rate_hz=0.1, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=0.1, neighbours=("a",))
    stage.tell(190.0)
    assert set(stage.seated) == {"a"}  # tried again
    assert told(stage.measure(195.0, "b", rate_hz=1.2, neighbours=("a",))) == []
    stage.measure(196.0, "a", rate_hz=3.0, neighbours=("b",))
    assert set(stage.seated) == {"a"}


def test_a_pair_that_was_kept_is_packed_again_when_something_else_has_parted_it() -> None:
    stage = packed_pair()
    stage.measure(152.0, "a", rate_hz=3.0, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=1.2, neighbours=("a",))
    stage.tell(154.0, Held("a"))
    assert not stage.seated
    stage.tell(155.0, Released("a"))
    stage.tell(190.0)
    assert set(stage.seated) == {"a"}


def test_who_does_not_share_is_never_packed() -> None:
    stage = two_in_turns(may_share=False)
    stage.measure(120.0, "b", rate_hz=2.0)
    stage.tell(190.0)
    assert not stage.seated


def test_jobs_whose_memory_does_not_fit_together_are_not_packed() -> None:
    stage = two_in_turns()
    stage.measure(120.0, "b", rate_hz=2.0, memory_bytes=(8 * GB, 7 * GB))  # and a needs 2
    stage.tell(190.0)
    assert not stage.seated


def test_the_job_that_keeps_a_device_least_busy_is_packed_with_the_device_that_is_least_busy() -> None:
    stage = Stage(packing(quantum_s=1000.0), 2)
    stage.submit(0.0, "busy", "idle")
    stage.measure(20.0, "busy", utilisation=0.9)
    stage.measure(20.0, "idle", utilisation=0.1)
    stage.submit(25.0, "x", "y")
    stage.tell(100.0)
    assert stage.running == {"x", "y"}
    stage.tell(110.0, *(Measured(name, 1, 1.0, busy, GB, GB) for name, busy in (("x", 0.8), ("y", 0.2))))
    stage.tell(140.0)
    assert "seat idle: packed with y, to be measured" in stage.lines


def test_a_job_is_not_packed_where_nobody_knows_how_fast_it_is_alone() -> None:
    """a was measured on a K80; beside b, on a V100, it would seem to be twice as fast together as alone."""
    stage = Stage(packing(quantum_s=1000.0))
    stage.tell(0.0, NodeJoined(Node("k", 1, "K80", 16 * GB)))
    stage.submit(0.0, "a")
    stage.measure(20.0, "a", rate_hz=1.0)
    stage.tell(
        21.0, NodeJoined(Node("v", 1, "V100", 16 * GB)), Submitted(JobSpec("b", device_types=frozenset({"V100"})))
    )
    stage.tell(22.0, NodeLost("k"))
    stage.measure(40.0, "b", rate_hz=4.0)
    stage.tell(200.0)
    assert (stage.running, stage.seated) == ({"b"}, {})


def test_a_gang_is_packed_only_with_a_gang_of_its_size() -> None:
    stage = Stage(packing(quantum_s=1000.0), 2)
    stage.submit(0.0, "gang", gang_size=2)
    stage.measure(20.0, "gang")
    stage.submit(25.0, "single")
    stage.tell(100.0)
    stage.measure(120.0, "single")
    stage.tell(190.0)
    assert stage.running == {"single"}
    assert not stage.seated


# ---- in a simulated cluster

HALVES = World(
    "halves",
    counts_only=False,
    preemption_s=0.0,
    speed={"any": 1.0},
    memory={"any": 100},
    unknown_memory=((10, 10),),
    unknown_utilisation=((0.4, 1.0),),
    interference=Fitted(0.0),
)
WHOLE = World(
    "whole",
    counts_only=False,
    preemption_s=0.0,
    speed={"any": 1.0},
    memory={"any": 100},
    unknown_memory=((10, 10),),
    unknown_utilisation=((1.0, 1.0),),
    interference=Fitted(0.3),
)
FOUR = [job(name, 0, 2000) for name in "abcd"]


def test_four_jobs_that_leave_half_a_device_idle_end_far_sooner_than_in_turns() -> None:
    finish_s = by_id(run(FOUR, cluster((1, 2, "any")), POLICIES["gandiva"](), HALVES), "finish_s")
    assert max(finish_s.values()) < 2600.0  # in turns: 4000


def test_four_jobs_that_keep_devices_busy_lose_next_to_nothing_by_being_tried() -> None:
    finish_s = by_id(run(FOUR, cluster((1, 2, "any")), POLICIES["gandiva"](), WHOLE), "finish_s")
    assert max(finish_s.values()) < 4000.0 * 1.05


@pytest.mark.parametrize("parameters", [{"margin": -0.1}, {"back_off_s": 0.0}])
def test_a_margin_below_0_or_no_back_off_is_refused(parameters: dict[str, float]) -> None:
    with pytest.raises(InputError, match="packing takes a margin"):
        POLICIES["gandiva"](**parameters)


# ---- others like them


def undone_kind(tenant: str = "ada") -> Stage:
    """Two jobs of ada's sweep were undone at 153 s, and are gone; two more of that name have been alone since."""
    stage = Stage(packing(1000.0, back_off_s=200.0), 1)
    stage.submit(0.0, "a", tenant="ada", model="sweep")
    stage.measure(20.0, "a", rate_hz=4.0)
    stage.submit(25.0, "b", tenant="ada", model="sweep")
    stage.tell(100.0)
    stage.measure(120.0, "b", rate_hz=2.0)
    stage.tell(140.0)
    stage.measure(152.0, "a", rate_hz=1.0, neighbours=("b",))
    stage.measure(153.0, "b", rate_hz=0.5, neighbours=("a",))
    assert not stage.seated
    stage.tell(154.0, Cancelled("a"), Cancelled("b"))
    stage.submit(155.0, "c", tenant=tenant, model="sweep")
    stage.measure(175.0, "c", rate_hz=4.0)
    stage.submit(180.0, "d", tenant=tenant, model="sweep")
    stage.tell(300.0)
    stage.measure(301.0, *stage.running, rate_hz=2.0)
    return stage


def test_what_became_of_a_pair_is_known_for_the_next_jobs_of_its_sweep() -> None:
    stage = undone_kind()
    stage.tell(352.0)
    assert not stage.seated
    stage.tell(360.0)
    assert [now for now, one in stage.log if isinstance(one, Seat)][1:] == [353.0]


def test_somebody_elses_jobs_of_the_same_name_are_not_taken_for_the_same() -> None:
    stage = undone_kind(tenant="bo")
    stage.tell(330.0)
    assert stage.seated


def test_only_so_many_verdicts_are_remembered_and_the_first_is_forgotten_first() -> None:
    backing_off = BackOffs[str](10.0, most=2)
    for name in "abc":
        backing_off.begin(name, 0.0)
    assert [backing_off.is_on(name, 5.0) for name in "abc"] == [False, True, True]


def test_who_is_told_of_twice_at_once_backs_off_once() -> None:
    backing_off = BackOffs[str](10.0)
    backing_off.begin("a", 0.0)
    backing_off.begin("a", 5.0)
    assert not backing_off.is_on("a", 10.0)
    backing_off.begin("a", 10.0)
    assert backing_off.is_on("a", 29.0)
    assert backing_off.next_end_s == 10.0
    assert not backing_off.has_ended(12.0, lambda name: False)
    assert backing_off.next_end_s == 30.0
    backing_off.forgive("a")
    assert not backing_off.has_ended(40.0, lambda name: False)


def test_many_who_do_not_pay_beside_a_holder_shut_nobody_out_who_may() -> None:
    """Of a sweep one was tried, and the others are of its kind."""
    share = Packing()
    stage = Stage(Policy(Fifo(strict=False), share=share), 1)
    stage.submit(0.0, "holder", model="quiet")
    sweep = [f"sweep{i}" for i in range(20)]
    stage.submit(1.0, *sweep, memory_bytes=GB, model="sweep")
    stage.submit(2.0, "other", memory_bytes=GB, model="other")
    for name in ("holder", *sweep, "other"):
        one = stage.job(name)
        one.alone, one.alone_on = Measured(name, 1, 1.0, 0.3, GB, GB), ("any", 1)
    share.verdicts.undo((stage.job("holder"), stage.job("sweep0")), 2.0)
    stage.measure(10.0, "holder")
    stage.tell(60.0)
    assert set(stage.seated) == {"other"}
