"""Guests compute as far as the holder does not notice: properties, and a model of a device to converge on."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.node.sharing.memory_split import GRAIN_BYTES, Need, Peak, divided
from weft.node.sharing.slowdown import PERIOD_S
from weft.node.sharing.throttle_controller import FIRST_DUTY, REFRESH_S, adjust
from weft.node.sharing.throttle_state import ControllerState, GuestSample, ThrottleSample, ThrottleSetting

MB = 1 << 20
STEP_S, TICK_S = 0.04, 0.1
BOUND = 0.02
"""What weft says of how much slower a holder may be before its guests are held back further."""


class Device:
    """A model: the holder's steps take longer by what the guests' duty does to them. Guests stand still when told."""

    def __init__(self, harm: Callable[[float], float], *, noise: float = 0.0, names: tuple[str, ...] = ("2",)) -> None:
        self.harm, self.noise, self.names = harm, noise, names
        self.is_idle, self.is_counted = False, False
        self.chance, self.state, self.now_s = random.Random(1), ControllerState(), 0.0
        self.duties = dict.fromkeys(names, 100)
        self.drift = 1.0
        self.efficiency = dict.fromkeys(names, 1.0)
        self.lost_s = self.alone_s = 0.0
        self.computed_s = 0.0

    def tick(self) -> ThrottleSetting:
        duty = sum(self.duties.values()) / 100
        steps = []
        left_s = TICK_S
        while left_s > 0:
            alone_s = STEP_S * self.drift * self.chance.gauss(1, self.noise)
            steps.append(alone_s * (1 + self.harm(duty)))
            left_s -= steps[-1]
            self.alone_s += alone_s
            self.lost_s += steps[-1] - alone_s
        self.now_s += sum(steps)
        self.computed_s += duty * sum(steps)
        waited_s = sum(steps) * self.harm(duty) if self.is_counted else None
        guests = tuple(
            GuestSample(name, duty == 0, is_idle=self.is_idle, progress=self.efficiency[name] * duty / 100)
            for name, duty in self.duties.items()
        )
        self.state, setting = adjust(
            self.state, ThrottleSample(tuple(steps), waited_s, sum(steps), 0, guests), self.now_s
        )
        self.duties = {name: each.duty for name, each in setting.guests.items()}
        return setting

    def run(self, lasts_s: float) -> list[ThrottleSetting]:
        until_s, seen = self.now_s + lasts_s, []
        while self.now_s < until_s:
            seen.append(self.tick())
        return seen

    def forget_costs(self) -> None:
        self.lost_s = self.alone_s = self.computed_s = 0.0


def beyond(idle: float) -> Callable[[float], float]:
    """No harm while the guests take no more than what is idle; then all of it."""
    return lambda duty: max(0.0, duty - idle)


def test_the_holder_is_seen_alone_before_any_guest_computes() -> None:
    device = Device(beyond(0.4))
    seen = device.run(10)
    first = next(index for index, setting in enumerate(seen) if setting.guests["2"].duty)
    assert all(setting.reason == "learning" for setting in seen[:first])
    assert seen[first].guests["2"].duty == FIRST_DUTY
    assert device.state.baseline.alone is not None
    assert len(device.state.baseline.alone.steps) >= 20


@pytest.mark.parametrize("idle", [0.2, 0.4, 0.7])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_it_converges_to_what_is_idle_and_the_holder_loses_next_to_nothing(idle: float, noise: float) -> None:
    device = Device(beyond(idle), noise=noise)
    device.run(60)
    device.forget_costs()
    began_s = device.now_s
    device.run(120)
    assert device.lost_s / device.alone_s <= 0.03
    assert device.computed_s / (device.now_s - began_s) >= idle / 2


def test_beside_a_holder_that_always_computes_the_guest_gets_next_to_nothing() -> None:
    device = Device(beyond(0.0), noise=0.01)
    device.run(30)
    device.forget_costs()
    device.run(120)
    assert device.lost_s / device.alone_s <= 0.03


def test_a_harm_that_begins_suddenly_is_answered_within_one_period() -> None:
    device = Device(beyond(1.0))
    device.run(40)
    before = device.state.guests.duties
    device.harm = lambda duty: 0.5 * duty
    assert device.run(1.4)[-1].guests["2"].duty == 0, "it stands still while it is looked at"
    device.run(1.4)
    assert dict(device.state.guests.duties)["2"] <= dict(before)["2"] // 2


def test_a_machine_that_slows_down_is_not_the_guests_fault() -> None:
    device = Device(beyond(1.0))
    device.run(40)
    before = dict(device.state.guests.duties)["2"]
    device.drift = 1.2
    device.run(8)
    assert dict(device.state.guests.duties)["2"] >= before


def on_a_drifting_machine(harm: float, tau_s: float) -> tuple[float, float]:
    """Some minutes on three machines whose speed never stays for longer than `tau_s`, as among other virtual ones: for
    which part of the time a guest computes, and by how much the holder is slower."""
    computes, lost = [], []
    for seed in range(3):
        device, away, kept, seen = Device(lambda duty: harm * duty, noise=0.1), 0.0, math.exp(-TICK_S / tau_s), 0
        device.is_idle, device.chance = True, random.Random(seed)
        ticks = 3000
        for _ in range(ticks):
            away = kept * away + math.sqrt(1 - kept**2) * device.chance.gauss(0, 0.04)
            device.drift = math.exp(away)
            seen += device.tick().guests["2"].duty == 100
        computes.append(seen / ticks)
        lost.append(device.lost_s / device.alone_s)
    return statistics.mean(computes), statistics.mean(lost)


@pytest.mark.parametrize("tau_s", [2.0, 20.0])
@pytest.mark.parametrize("harm", [0.0, -0.05])
def test_who_does_no_harm_computes_most_of_the_time_whatever_the_machine_does(harm: float, tau_s: float) -> None:
    computes, _ = on_a_drifting_machine(harm, tau_s)
    assert computes >= 0.8


@pytest.mark.parametrize("tau_s", [2.0, 20.0])
@pytest.mark.parametrize("harm", [0.06, 0.1, 0.3])
def test_who_does_harm_is_found_out_on_a_machine_that_drifts_by_as_much(harm: float, tau_s: float) -> None:
    _, lost = on_a_drifting_machine(harm, tau_s)
    assert lost <= 0.03


def test_a_holder_that_is_quicker_beside_its_guests_is_learnt_anew_less_and_less_often() -> None:
    device = Device(lambda duty: -0.1 * duty)
    device.is_idle = True
    reasons = [[setting.reason for setting in device.run(60)] for _ in range(6)]
    begun = [sum(sooner != "learning" == later for sooner, later in pairwise(each)) for each in reasons]
    assert begun[0] >= 3
    assert sum(begun[3:]) <= 1


def test_where_the_kernel_counts_waiting_a_little_of_it_is_enough_to_know() -> None:
    device = Device(lambda duty: 0.06 * duty, noise=0.1)
    device.is_counted = True
    device.run(60)
    device.forget_costs()
    device.run(120)
    assert device.lost_s / device.alone_s <= 0.03


def test_in_the_idle_class_a_guest_computes_fully_or_stands_still() -> None:
    device = Device(beyond(1.0))
    device.is_idle = device.is_counted = True
    assert {setting.guests["2"].duty for setting in device.run(30)} == {0, 100}
    assert dict(device.duties)["2"] == 100
    device.harm = lambda duty: 0.1 * duty
    device.forget_costs()
    assert {setting.guests["2"].duty for setting in device.run(300)} == {0, 100}
    assert device.lost_s / device.alone_s <= 0.02


def test_while_guests_rest_it_is_said_how_much_slower_the_holder_was() -> None:
    device = Device(lambda duty: 0.1 * duty)
    device.is_idle = True
    resting = [setting.slowdown for setting in device.run(60) if setting.reason == "resting"]
    assert resting
    assert resting == [pytest.approx(0.1, abs=0.01)] * len(resting)


def test_the_time_alone_is_learnt_anew_every_ten_minutes_and_at_once_after_a_leap() -> None:
    device = Device(beyond(1.0))
    device.run(60)
    assert "learning" in {setting.reason for setting in device.run(REFRESH_S)}
    device.run(60)
    device.drift = 20.0
    assert "learning" in {setting.reason for setting in device.run(3)}


class Stalling:
    """A holder that steps when the test says so, beside one guest that stands and goes on as it is told."""

    def __init__(self) -> None:
        self.state, self.now_s = ControllerState(), 0.0
        self.duty, self.gated_s = 100, 0.0

    def step(self, step_s: float, count: int = 1) -> None:
        for _ in range(count):
            self.idle(step_s, (step_s,))

    def idle(self, lasts_s: float, then: tuple[float, ...] = ()) -> None:
        """The holder ends no step for so long, but for these at the end."""
        until_s = self.now_s + lasts_s
        while self.now_s < until_s:
            tick_s = min(1.0, until_s - self.now_s)
            self.now_s = min(self.now_s + tick_s, until_s)
            self.gated_s += tick_s if not self.duty else 0.0
            steps = then if self.now_s >= until_s else ()
            sample = ThrottleSample(steps, None, tick_s, 0, (GuestSample("2", not self.duty),))
            self.state, setting = adjust(self.state, sample, self.now_s)
            self.duty = setting.guests["2"].duty


def test_guests_do_not_stand_still_to_learn_from_a_holder_that_makes_no_steps() -> None:
    newcomer = Stalling()
    newcomer.idle(3600)
    assert newcomer.gated_s <= 11, "it may load its data for a while"
    known = Stalling()
    known.step(0.1, 100)
    assert known.duty, "it is learnt"
    known.gated_s = 0.0
    known.idle(7200)
    assert known.gated_s == 0.0, "nor when it is time to learn anew"


def test_a_holder_that_goes_on_after_a_stall_is_learnt_from_its_next_step_on() -> None:
    holder = Stalling()
    holder.idle(60)
    assert holder.duty
    holder.step(0.1)
    assert not holder.duty
    holder.step(0.1, 40)
    assert holder.duty
    assert holder.state.baseline.alone is not None


def test_a_holder_that_stalls_after_every_few_steps_is_learnt_all_the_same() -> None:
    holder = Stalling()
    for _ in range(10):
        holder.step(0.2, 8)
        holder.idle(30)
    assert holder.state.baseline.alone is not None
    assert max(holder.state.baseline.alone.steps) == 0.2


def test_a_holder_of_long_steps_is_not_taken_to_stall() -> None:
    holder = Stalling()
    holder.step(40.0)
    beside_s = holder.now_s - holder.gated_s
    holder.step(40.0, 22)
    assert holder.now_s - holder.gated_s == beside_s, "guests compute beside none but its first step"
    holder.step(40.0, 3)
    assert holder.state.baseline.alone is not None


def test_more_duty_goes_to_the_guest_that_makes_the_most_of_it() -> None:
    device = Device(beyond(0.6), names=("2", "3"))
    device.efficiency["3"] = 0.2
    device.run(60)
    duties = dict(device.state.guests.duties)
    assert duties["2"] >= 4 * duties["3"]


@st.composite
def harms(draw: st.DrawFn) -> list[Callable[[float], float]]:
    """What guests do to the holder, and how that changes: so much of what is beyond an idle part."""
    slopes, idles = st.sampled_from([0.0, 0.05, 0.2, 0.62, 1.5]), st.sampled_from([0.0, 0.1, 0.4, 1.0])
    drawn = draw(st.lists(st.tuples(slopes, idles), min_size=1, max_size=4))
    return [lambda duty, slope=slope, idle=idle: slope * max(0.0, duty - idle) for slope, idle in drawn]  # type: ignore[misc]


@given(harms(), st.booleans(), st.sampled_from([("2",), ("2", "3")]))
@settings(deadline=None, max_examples=60)
def test_nobody_is_given_more_while_the_holder_is_slower_than_its_bound(
    many: list[Callable[[float], float]], is_counted: bool, names: tuple[str, ...]
) -> None:
    """By what the model knows, not by what the controller believes. What comes too late in a period to be seen in it
    is left out."""
    device = Device(many[0], names=names)
    device.is_counted = is_counted
    for harm in many:
        device.harm, seen_s = harm, device.now_s + 2 * PERIOD_S
        until_s = device.now_s + 25
        while device.now_s < until_s:
            before = dict(device.state.guests.duties)
            device.tick()
            is_raised = any(duty > before.get(name, FIRST_DUTY) for name, duty in device.state.guests.duties)
            lost = harm(sum(before.values()) / 100)
            assert not (is_raised and device.now_s > seen_s and lost > BOUND), (
                f"raised from {before}, at {lost:.3f} slower"
            )


@st.composite
def samples(draw: st.DrawFn) -> list[tuple[ThrottleSample, float]]:
    names = draw(st.lists(st.sampled_from("abc"), unique=True, max_size=3))
    many = []
    for _ in range(draw(st.integers(1, 15))):
        steps = tuple(draw(st.lists(st.floats(0.001, 10), max_size=15)))
        waited_s = draw(st.none() | st.floats(0, 1))
        guests = tuple(
            GuestSample(
                name,
                draw(st.booleans()),
                draw(st.integers(0, 200 * MB)),
                draw(st.none() | st.integers(0, 200 * MB)),
                draw(st.booleans()),
                draw(st.none() | st.floats(0, 1)),
            )
            for name in names
        )
        lasted_s = draw(st.floats(0.01, 5))
        many.append((ThrottleSample(steps, waited_s, lasted_s, draw(st.integers(0, 400 * MB)), guests), lasted_s))
    return many


@given(samples(), st.integers(0, 512).map(lambda size: size * MB))
@settings(deadline=None)
def test_whatever_is_seen_duties_and_limits_are_within_bounds(
    many: list[tuple[ThrottleSample, float]], capacity_bytes: int
) -> None:
    state, now_s = ControllerState(), 0.0
    for sample, lasted_s in many:
        now_s += lasted_s
        state, setting = adjust(state, sample, now_s, capacity_bytes)
        assert setting.guests.keys() == {guest.job_id for guest in sample.guests}
        assert all(0 <= each.duty <= 100 for each in setting.guests.values())
        assert all(1 <= duty <= 100 for _, duty in state.guests.duties)
        assert all(each.has_room or each.duty == 0 for each in setting.guests.values())
        if setting.holder_limit_bytes is not None:
            limits = [each.limit_bytes for each in setting.guests.values() if each.has_room]
            assert setting.holder_limit_bytes + sum(filter(None, limits)) <= capacity_bytes


needs = st.lists(
    st.builds(
        Need,
        st.uuids().map(str),
        st.integers(0, 300 * MB),
        st.none() | st.integers(0, 300 * MB),
        st.sampled_from([0, 0, 1, 2]),
    ),
    max_size=5,
)


@given(st.integers(2, 1024).map(lambda size: size * MB), st.integers(0, 500 * MB), needs)
def test_limits_fill_the_device_and_nobody_is_below_what_it_must_have(
    capacity_bytes: int, holder_bytes: int, guests: list[Need]
) -> None:
    division = divided(capacity_bytes, holder_bytes, guests)
    taken_bytes = sum(
        max(limits[one] + sum(lasting[other] for other in limits if other != one) for one in limits)
        for limits, lasting in by_lane(division.guests, guests)
    )
    assert division.holder_bytes + taken_bytes <= capacity_bytes, "whoever has the turn, and uses all it may"
    if not any(guest.lane for guest in guests):
        assert division.holder_bytes + taken_bytes == capacity_bytes // GRAIN_BYTES * GRAIN_BYTES
    assert division.holder_bytes >= min(capacity_bytes, holder_bytes)
    for guest in guests:
        if guest.job_id in division.guests:
            assert division.guests[guest.job_id] >= max(MB, guest.persistent_bytes)


def by_lane(limits: Mapping[str, int], guests: list[Need]) -> Iterator[tuple[dict[str, int], dict[str, int]]]:
    """Limits, and what lasts, of those that take turns."""
    seated = [guest for guest in guests if guest.job_id in limits]
    for lane in {guest.lane or guest.job_id for guest in seated}:
        members = [guest for guest in seated if (guest.lane or guest.job_id) == lane]
        yield {one.job_id: limits[one.job_id] for one in members}, {one.job_id: one.persistent_bytes for one in members}


def test_those_in_a_lane_have_what_a_step_needs_together() -> None:
    """Seated by the sum of P and the largest T: so each may have its own T, in its turn."""
    state, guests = ControllerState(), tuple(GuestSample(str(i), False, 4 * MB, 20 * MB, lane=1) for i in range(4))
    for second in range(1, 20):
        state, setting = adjust(state, ThrottleSample((0.1,), None, 0.1, 20 * MB, guests), second, 64 * MB)
    assert all((each.limit_bytes or 0) >= 24 * MB for each in setting.guests.values())
    assert (setting.holder_limit_bytes or 0) >= 20 * MB


def test_headroom_is_given_as_far_as_it_takes_no_guests_place() -> None:
    fits = divided(24_000 * MB, 21_000 * MB, [Need("2", 2_200 * MB, 300 * MB)])
    assert fits.guests["2"] >= 2_200 * MB
    assert fits.holder_bytes >= 21_000 * MB
    roomy = divided(24_000 * MB, 10_000 * MB, [Need("2", 2_000 * MB, 300 * MB)])
    assert roomy.guests["2"] >= 1.05 * 2_300 * MB
    assert roomy.holder_bytes >= 1.05 * 10_000 * MB
    needs = [Need("2", 2_000 * MB, 0), Need("3", 9_000 * MB, 0)]
    assert divided(24_000 * MB, 20_000 * MB, needs).guests == {"2": 2_100 * MB}, "for one that has no place anyway"


def limits(needed_bytes: int, state: ControllerState, now_s: float) -> tuple[ControllerState, ThrottleSetting]:
    guests = (GuestSample("2", False, 20 * MB, 30 * MB), GuestSample("3", False, 40 * MB, 40 * MB))
    return adjust(state, ThrottleSample((0.1,), None, 0.1, needed_bytes, guests), now_s, 200 * MB)


def test_guests_are_given_memory_slowly() -> None:
    state, seen = ControllerState(), list[int]()
    for tenths in range(10, 70):
        state, setting = limits(20 * MB, state, tenths / 10)
        seen.append(setting.guests["2"].limit_bytes or 0)
        given_bytes = sum(each.limit_bytes or 0 for each in setting.guests.values())
        assert given_bytes + (setting.holder_limit_bytes or 0) == 200 * MB, "what they have not yet is the holder's"
    assert seen[0] >= 20 * MB, "what lasts has its room at once"
    assert {later - sooner for sooner, later in pairwise(seen)} - {0} <= {each * MB for each in range(1, 11)}
    assert seen[-1] >= 60 * MB


def test_a_guest_of_which_nothing_is_known_yet_has_all_there_is_at_once() -> None:
    guest = GuestSample("2", False, 0, None)
    _, setting = adjust(ControllerState(), ThrottleSample((0.1,), None, 0.1, 20 * MB, (guest,)), 1.0, 200 * MB)
    assert (setting.guests["2"].limit_bytes or 0) >= 160 * MB


def test_guests_on_different_devices_of_a_gang_have_each_device_to_themselves() -> None:
    def adjusted(*devices: frozenset[int]) -> ThrottleSetting:
        state, guests = (
            ControllerState(),
            [GuestSample(str(i), False, 60 * MB, 20 * MB, devices=at) for i, at in enumerate(devices)],
        )
        for second in range(1, 20):
            state, setting = adjust(state, ThrottleSample((0.1,), None, 0.1, 20 * MB, tuple(guests)), second, 120 * MB)
        return setting

    apart = adjusted(frozenset({0}), frozenset({1}))
    assert [each.limit_bytes for each in apart.guests.values()] == [96 * MB, 96 * MB]
    assert apart.holder_limit_bytes == 24 * MB
    together = adjusted(frozenset({0}), frozenset({0}))
    assert [each.has_room for each in together.guests.values()] == [True, False]
    one_on_both = adjusted(frozenset({0}), frozenset({0, 1}))
    assert [each.has_room for each in one_on_both.guests.values()] == [True, False], "on one of its devices it has none"


def test_a_burst_of_the_holder_shrinks_guests_at_once_and_ends_the_stay_of_who_cannot_shrink_that_far() -> None:
    state = ControllerState()
    for second in range(1, 9):
        state, calm = limits(20 * MB, state, second)
    assert [each.has_room for each in calm.guests.values()] == [True, True]
    assert calm.holder_limit_bytes is not None
    assert calm.holder_limit_bytes >= 36 * MB, "what nobody needs is the holder's"
    assert (calm.guests["2"].limit_bytes or 0) >= 60 * MB, "so that freed blocks can be kept for the next step"
    state, burst = limits(120 * MB, state, 8.1)
    assert burst.holder_limit_bytes is not None
    assert burst.holder_limit_bytes >= 126 * MB
    assert all(each.has_room for each in burst.guests.values())
    state, larger = limits(160 * MB, state, 8.2)
    assert not larger.guests["3"].has_room
    assert larger.guests["3"].duty == 0
    _, after = limits(20 * MB, state, 8.3)
    assert after == larger, "the peak is remembered for a while"


def test_a_peak_is_forgotten_after_ten_minutes() -> None:
    peak = Peak().noted(100, 0.0)
    for now_s in range(10, 2000, 10):
        peak = peak.noted(10, now_s)
        if now_s < 300:
            assert peak.bytes == 100
    assert peak.bytes == 10
