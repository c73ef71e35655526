"""What comes of comparing two jobs with themselves alone, on a machine whose load changes meanwhile."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.gain import CONFIDENCE, Gain, Outcome, judge
from weft.node.sharing.pair_comparison import (
    MOST_ROUNDS,
    OF_A_ROUND,
    Comparison,
    ComparisonPhase,
    Counted,
    PhaseRates,
    PhaseStretch,
)

MARGIN = 0.05
Load = Callable[[int], float]


def compared(load: Load, holder: float, guest: float, noise: Callable[[], float] = lambda: 1.0) -> tuple[Gain, int]:
    """Of jobs that alone make 100 and 40 steps a second; the factor of each phase, and how many phases it took."""
    comparison = Comparison()
    while not comparison.is_done:
        at, phase = len(comparison.phases), comparison.phase
        factor = load(at)
        rates = PhaseRates(
            0.0
            if phase is ComparisonPhase.GUEST
            else 100 * factor * noise() * (holder if phase is ComparisonPhase.BOTH else 1.0),
            0.0
            if phase is ComparisonPhase.HOLDER
            else 40 * factor * noise() * (guest if phase is ComparisonPhase.BOTH else 1.0),
        )
        comparison = comparison.after(rates)
    return judge([each.share for each in comparison.results()], MARGIN), len(comparison.phases)


SHARES = st.floats(0.5, 1.0)


@given(SHARES, SHARES, st.floats(-0.03, 0.03))
def test_a_load_that_rises_or_falls_steadily_cancels_out(holder: float, guest: float, by: float) -> None:
    gain, _ = compared(lambda at: 1.0 + by * at if by > 0 else 1.0 / (1.0 - by * at), holder, guest)
    assert gain.total == pytest.approx(holder + guest, abs=0.02 + gain.half_width)
    assert gain.outcome is not Outcome.IMPOSSIBLE


@settings(max_examples=300)
@given(SHARES, SHARES, st.integers(0, OF_A_ROUND * MOST_ROUNDS), st.floats(0.05, 20.0))
def test_a_load_that_leaps_once_is_seen_and_turns_no_verdict_over(
    holder: float, guest: float, leaps_at: int, factor: float
) -> None:
    gain, _ = compared(lambda at: factor if at >= leaps_at else 1.0, holder, guest)
    if gain.outcome is Outcome.KEEP:
        assert holder + guest > 1.0
        assert gain.total <= 2.1
    if gain.outcome is Outcome.UNDO:
        assert holder + guest <= 1.0 + MARGIN + 0.05


@settings(max_examples=300)
@given(SHARES, SHARES, st.lists(st.floats(0.02, 50.0), min_size=41, max_size=41))
def test_no_load_whatever_makes_for_more_than_two_jobs_can_do(holder: float, guest: float, loads: list[float]) -> None:
    gain, phases = compared(lambda at: loads[at], holder, guest)
    assert phases <= OF_A_ROUND * MOST_ROUNDS + 1
    assert gain.outcome is not Outcome.KEEP or gain.total <= 2.1


@pytest.mark.parametrize(("noise", "leap"), [(0.03, 0.0), (0.1, 0.0), (0.2, 0.0), (0.05, 0.1)])
@pytest.mark.parametrize("total", [1.0, 1.12])
def test_a_verdict_is_wrong_no_more_often_than_stated(noise: float, leap: float, total: float) -> None:
    """With noise in each rate, and a load that leaps by up to three times at any phase with a chance of its own."""
    chance, wrong, rounds = random.Random(f"{noise} {leap} {total}"), 0, 600
    for _ in range(rounds):
        factors = [1.0]
        while len(factors) <= OF_A_ROUND * MOST_ROUNDS:
            factors.append(chance.uniform(1 / 3, 3.0) if chance.random() < leap else factors[-1])
        load = factors.__getitem__
        gain, _ = compared(load, total / 2, total / 2, lambda: max(0.05, chance.gauss(1.0, noise)))
        wrong += gain.outcome is (Outcome.KEEP if total <= 1.0 else Outcome.UNDO)
    assert wrong / rounds <= 1 - CONFIDENCE, wrong


@pytest.mark.parametrize(("holder", "guest", "outcome"), [(0.95, 0.95, Outcome.KEEP), (0.46, 0.42, Outcome.UNDO)])
def test_what_is_clear_is_decided_soon_though_it_is_noisy(holder: float, guest: float, outcome: Outcome) -> None:
    chance = random.Random(7)
    found = [compared(lambda at: 1.0, holder, guest, lambda: chance.gauss(1.0, 0.05)) for _ in range(200)]
    assert sum(gain.outcome is outcome for gain, _ in found) >= 0.95 * len(found)
    assert sorted(phases for _, phases in found)[100] <= 6 * OF_A_ROUND + 1


def stretch(*looks: tuple[int, float], begun: tuple[int, float] = (10, 0.0)) -> PhaseStretch:
    found = PhaseStretch()
    for step, stepped_s in looks:
        found = found.seen(Counted(step, stepped_s), Counted(*begun), begun[1])
    return found


def test_the_step_that_was_on_when_a_phase_began_does_not_count() -> None:
    assert stretch((10, -1.0), (11, 0.1), (12, 0.5), (17, 1.0), (22, 1.5)).rate_hz == pytest.approx(10.0)
    assert stretch((10, -1.0), (11, 0.5), (12, 0.9)).rate_hz is None, "too short"
    assert stretch((10, -1.0), (11, 5.0), (12, 10.0), (13, 15.0)).rate_hz == pytest.approx(0.2)


WRITTEN = st.tuples(
    st.integers(0, 2**63), st.floats(allow_nan=True, allow_infinity=True) | st.integers(0, 2**64).map(float)
)


@given(st.lists(WRITTEN, max_size=8))
def test_whatever_a_job_writes_on_its_page_its_rate_is_a_rate_or_none(looks: list[tuple[int, float]]) -> None:
    rate_hz = stretch(*looks).rate_hz
    assert rate_hz is None or 0.0 < rate_hz <= 1e6
