"""Whether packing gains, and how sure that is: whatever a job's page says, and whatever the machine's load does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.core.gain import LEAST_OF_TURNS, LEAST_ROUNDS, Outcome, Share, judge, most_together, share_of

ANY = st.floats(allow_nan=True, allow_infinity=True)
MARGINS = st.floats(0.0, 0.5)
POSSIBLE = st.builds(Share, st.floats(0.01, 1.0), st.floats(0.0, 0.5))


@given(st.lists(st.builds(Share, ANY, ANY), min_size=2, max_size=5), MARGINS)
def test_whatever_is_said_nothing_impossible_is_kept_or_undone(shares: list[Share], margin: float) -> None:
    gain = judge(shares, margin)
    if gain.outcome is not Outcome.IMPOSSIBLE:
        assert 0.0 < gain.total <= most_together(len(shares))
        assert gain.half_width >= 0.0
    if gain.outcome is Outcome.KEEP:
        assert gain.total > 1.0 + margin
        assert gain.total - gain.half_width > 1.0 - 1e-9


@given(st.lists(POSSIBLE, min_size=2, max_size=4), MARGINS)
def test_a_sum_is_never_called_a_loss_if_the_interval_reaches_a_gain_worth_having(
    shares: list[Share], margin: float
) -> None:
    gain = judge(shares, margin)
    is_harmed = any(each.ratio + each.half_width < LEAST_OF_TURNS / len(shares) for each in shares)
    if gain.outcome is Outcome.UNDO and not is_harmed and gain.half_width > margin:
        assert gain.total + gain.half_width <= 1.0 + margin


@given(st.lists(st.floats(0.5, 1.0), min_size=2, max_size=2), MARGINS)
def test_without_an_error_there_is_always_a_verdict_and_it_is_the_margin_that_decides(
    ratios: list[float], margin: float
) -> None:
    gain = judge([Share(ratio) for ratio in ratios], margin)
    assert gain.outcome is (Outcome.KEEP if sum(ratios) > 1.0 + margin else Outcome.UNDO)


@given(st.builds(Share, ANY, ANY), st.floats(1e-3, 0.249), MARGINS)
def test_a_lie_of_one_job_never_keeps_another_where_it_makes_less_than_half_of_its_turns(
    claimed: Share, harmed: float, margin: float
) -> None:
    assert judge([claimed, Share(harmed)], margin).outcome is not Outcome.KEEP


@pytest.mark.parametrize("jobs", [2, 3, 4])
def test_so_many_jobs_make_at_most_so_much(jobs: int) -> None:
    assert judge([Share(1.05)] * jobs, 0.05).outcome is Outcome.KEEP
    assert judge([Share(1.06)] * jobs, 0.05).outcome is Outcome.IMPOSSIBLE


@pytest.mark.parametrize("odd", [0.0, -1.0, math.nan, math.inf, -math.inf, 1e308])
def test_a_rate_that_cannot_be_is_a_bad_measurement(odd: float) -> None:
    assert judge([Share(odd), Share(0.9)], 0.05).outcome is Outcome.IMPOSSIBLE
    if odd != 0.0:
        assert judge([Share(0.9, odd), Share(0.9)], 0.05).outcome in (Outcome.IMPOSSIBLE, Outcome.UNSURE)


@given(st.lists(st.floats(0.1, 2.0), max_size=12))
def test_more_rounds_that_agree_make_it_surer(ratios: list[float]) -> None:
    share = share_of(ratios)
    if len(ratios) < LEAST_ROUNDS:
        assert share.half_width == 1.0
    else:
        assert min(ratios) - 1e-9 <= share.ratio <= max(ratios) + 1e-9
        assert share_of(ratios * 2).half_width <= share.half_width + 1e-12
