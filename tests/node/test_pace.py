"""How fast a task is now, as a listing shows it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.node.metrics.step_rate import RECENT_S, Pace, RateSample


def stepping(pace: Pace, *, from_s: float, until_s: float, rate_hz: float, from_step: int = 0) -> Pace:
    """A look a second, while it makes so many steps a second."""
    for now_s in range(int(from_s), int(until_s)):
        steps = int((now_s - from_s) * rate_hz)
        pace = pace.seen(RateSample(now_s, from_step + steps, from_s + steps / rate_hz))
    return pace


def test_it_is_told_from_step_to_step() -> None:
    assert stepping(Pace(), from_s=5, until_s=9, rate_hz=7.3).rate_hz == pytest.approx(7.3)


def test_nothing_is_told_before_there_are_two_looks_at_steps() -> None:
    assert Pace().rate_hz is None
    assert Pace().seen(RateSample(0, 0, 0)).rate_hz is None
    assert Pace().seen(RateSample(0, 0, 0)).seen(RateSample(1, 9, 0.9)).rate_hz is None


def test_what_was_more_than_some_seconds_ago_does_not_count() -> None:
    fast = stepping(Pace(), from_s=0, until_s=100, rate_hz=50.0)
    slow = stepping(fast, from_s=100, until_s=113, rate_hz=10.0, from_step=4950)
    assert slow.rate_hz == pytest.approx(10.0, rel=0.1)


def test_of_long_steps_the_last_few_count() -> None:
    assert stepping(Pace(), from_s=0, until_s=400, rate_hz=1 / 40).rate_hz == pytest.approx(1 / 40, rel=0.1)


def test_one_that_rests_half_of_the_time_makes_half_of_its_steps() -> None:
    pace, step = Pace(), 0
    for now_s in range(60):
        step += 0 if now_s % 4 < 2 else 20
        pace = pace.seen(RateSample(now_s, step, now_s, is_gated=now_s % 4 < 2))
    assert pace.rate_hz == pytest.approx(10.0, rel=0.2)


def test_one_that_stands_still_makes_less_and_less() -> None:
    pace = stepping(Pace(), from_s=0, until_s=20, rate_hz=50.0)
    rates = []
    for now_s in range(20, 620, 60):
        pace = pace.seen(RateSample(now_s, 950, 19))
        rates.append(pace.rate_hz or 0.0)
    assert all(later < earlier for earlier, later in pairwise(rates))
    assert rates[-1] < 1.0


def test_one_that_never_steps_after_a_pause_is_known_to_be_slow_after_a_while() -> None:
    pace = stepping(Pace(), from_s=0, until_s=20, rate_hz=50.0)
    resumed = pace.seen(RateSample(900, 950, 19, generation=1))
    assert resumed.rate_hz is None
    assert resumed.seen(RateSample(900 + 2 * RECENT_S, 950, 19, generation=1)).rate_hz == 1 / (2 * RECENT_S)


def test_a_pause_does_not_count() -> None:
    pace = stepping(Pace(), from_s=0, until_s=20, rate_hz=50.0)
    for now_s in range(900, 905):
        pace = pace.seen(RateSample(now_s, 950 + 50 * (now_s - 900), now_s if now_s > 900 else 19, generation=1))
    assert pace.rate_hz == pytest.approx(50.0)


@given(st.lists(st.tuples(st.floats(0.1, 30.0), st.integers(0, 40)), max_size=60))
def test_no_more_looks_are_kept_than_recent_steps_need(passed: list[tuple[float, int]]) -> None:
    pace, now_s, step = Pace(), 0.0, 0
    for more_s, steps in passed:
        now_s, step = now_s + more_s, step + steps
        pace = pace.seen(RateSample(now_s, step, now_s))
        assert pace.rate_hz is None or 0 < pace.rate_hz < 1000
        assert all(a.step <= b.step and a.now_s < b.now_s for a, b in pairwise(pace.looks))
        kept_s = now_s - pace.looks[min(1, len(pace.looks) - 1)].now_s
        assert kept_s < RECENT_S or step - pace.looks[1].step < 3
