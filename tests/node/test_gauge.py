"""Rates over stable stretches, warm-up left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.node.metrics.step_rate import Gauge, RateSample, with_sample
from weft.node.sharing.slowdown import Window, typical

ALONE: frozenset[str] = frozenset()


def looks(gauge: Gauge, *, step_s: float, steps: int, from_step: int = 0, from_s: float = 0.0, **more: object) -> Gauge:
    """One at the end of each step."""
    for number in range(steps + 1):
        at_s = from_s + number * step_s
        gauge = with_sample(gauge, RateSample(at_s, from_step + number, at_s, **more))  # type: ignore[arg-type]
    return gauge


def test_the_rate_is_counted_from_step_to_step_not_from_look_to_look() -> None:
    gauge = Gauge()
    for tick in range(100):
        now_s = tick * 0.07
        step = int(now_s / 0.1)
        gauge = with_sample(gauge, RateSample(now_s, step, step * 0.1))
    assert gauge.rate is not None
    assert gauge.rate.rate_hz == pytest.approx(10)


def test_the_first_steps_and_the_first_second_are_left_out() -> None:
    slow_start = looks(Gauge(), step_s=2.0, steps=3)
    gauge = looks(slow_start, step_s=0.1, steps=40, from_step=3, from_s=6.0)
    assert gauge.rate is not None
    assert gauge.rate.rate_hz == pytest.approx(10)
    assert looks(Gauge(), step_s=0.05, steps=19).rate is None
    assert looks(Gauge(), step_s=5.0, steps=2).rate is None


def test_a_change_of_neighbours_duty_or_lease_begins_a_new_stretch() -> None:
    before = looks(Gauge(), step_s=0.1, steps=50)
    assert before.rate is not None
    for change in ({"neighbours": frozenset({"2"})}, {"duty": 50}, {"generation": 1}):
        assert looks(before, step_s=0.1, steps=1, from_step=50, from_s=5.0, **change).rate is None
    beside = looks(before, step_s=0.2, steps=40, from_step=50, from_s=5.0, neighbours=frozenset({"2"}))
    assert beside.rate is not None
    assert beside.rate.rate_hz == pytest.approx(5)
    assert beside.rate.neighbours == {"2"}


def test_the_time_for_which_a_guest_stands_still_for_its_holder_counts() -> None:
    gauge = looks(Gauge(), step_s=0.1, steps=60, is_held_back=True)
    before = gauge.rate
    for now_s in range(7, 307):
        look = RateSample(now_s, 60, now_s - 0.5, is_held_back=True, is_gated=True)
        gauge = with_sample(gauge, look)
    after = looks(gauge, step_s=0.1, steps=60, from_step=60, from_s=306.0, is_held_back=True).rate
    assert before is not None
    assert gauge.rate is not None
    assert after is not None
    assert before.rate_hz == pytest.approx(10)
    assert gauge.rate.rate_hz == pytest.approx(50 / 305, rel=0.03)
    assert after.rate_hz == pytest.approx(110 / 311, rel=0.03)


def test_a_guest_that_stands_still_at_first_is_measured_from_when_it_computes() -> None:
    gauge = looks(Gauge(), step_s=0.1, steps=5, is_held_back=True)
    for now_s in (1.0, 2.0, 3.0):
        gauge = with_sample(gauge, RateSample(now_s, 5, now_s - 0.1, is_held_back=True, is_gated=True))
    assert gauge.rate is None
    rate = looks(gauge, step_s=0.1, steps=40, from_step=5, from_s=3.1, is_held_back=True).rate
    assert rate is not None
    assert rate.rate_hz == pytest.approx(10)


def test_a_guest_that_makes_no_step_makes_less_the_longer_that_lasts_though_it_is_not_gated() -> None:
    gauge = looks(Gauge(), step_s=0.1, steps=60, is_held_back=True)
    gauge = replace(gauge, counted=gauge.newest)
    assert gauge.rate is None
    silent = with_sample(gauge, RateSample(306.0, 60, 6.0, is_held_back=True)).rate
    assert silent is not None
    assert (silent.rate_hz, silent.steps) == (pytest.approx(1 / 300), 0)


def test_a_task_that_counts_anew_is_measured_anew() -> None:
    before = looks(Gauge(), step_s=0.1, steps=50)
    assert looks(before, step_s=0.1, steps=5, from_step=0, from_s=5.0).rate is None


@pytest.mark.parametrize(
    ("step_s", "steps", "is_settled"),
    [(0.2, 24, False), (0.2, 30, True), (0.05, 50, False), (0.05, 80, True), (4.0, 5, False), (4.0, 6, True)],
)
def test_it_is_settled_after_twenty_steps_and_two_seconds_or_three_steps_and_ten(
    step_s: float, steps: int, is_settled: bool
) -> None:
    rate = looks(Gauge(), step_s=step_s, steps=steps).rate
    assert rate is not None
    assert rate.is_settled is is_settled


def test_a_rare_checkpoint_does_not_show_but_every_third_step_held_up_does() -> None:
    assert typical([0.1] * 39 + [5.0]).typical_s == pytest.approx(0.1)
    assert typical([0.1, 0.1, 0.13] * 10).typical_s == pytest.approx(0.11)


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=300))
def test_what_is_typical_is_between_the_least_and_the_most(durations_s: list[float]) -> None:
    found = typical(durations_s)
    assert min(durations_s) * (1 - 1e-9) <= found.typical_s <= max(durations_s) * (1 + 1e-9)
    assert found.error_s >= 0


def test_a_window_of_which_nobody_counted_the_waiting_says_so() -> None:
    assert Window().and_then((0.1,), 0.01, 0.1).waited == pytest.approx(0.1)
    assert Window().and_then((0.1,), None, 0.1).and_then((0.1,), 0.01, 0.1).waited is None
