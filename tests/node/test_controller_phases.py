"""The throttling controller's phases: what each event makes of each."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.node.sharing.slowdown import Evidence, Measure, Window
from weft.node.sharing.throttle_state import (
    AloneLearnt,
    AloneNeeded,
    Comparing,
    ComparingAlone,
    GuestsChanged,
    HolderStalled,
    LearningAlone,
    Phase,
    PhaseEvent,
    Together,
    gated_since_s,
    next_phase,
)

TIMES = st.floats(0.0, 1e6)
PERIODS = st.lists(st.just(Evidence(Measure(0.03, 0.01), None)), max_size=3).map(tuple)
PHASES: st.SearchStrategy[Phase] = st.one_of(
    st.just(Together()),
    st.builds(LearningAlone, TIMES, st.none() | st.just(Window((0.1,)))),
    st.builds(Comparing, PERIODS),
    st.builds(ComparingAlone, TIMES, PERIODS),
)
EVENTS: st.SearchStrategy[PhaseEvent] = st.one_of(
    st.just(GuestsChanged()), st.just(HolderStalled()), st.builds(AloneNeeded), st.builds(AloneLearnt, st.booleans())
)


@given(PHASES, TIMES)
def test_guests_are_gated_whenever_the_holders_time_alone_is_needed(phase: Phase, now_s: float) -> None:
    assert gated_since_s(next_phase(phase, AloneNeeded(), now_s)) is not None


@given(PHASES, st.booleans(), TIMES)
def test_guests_compute_once_it_is_learnt(phase: Phase, is_slower: bool, now_s: float) -> None:
    assert gated_since_s(next_phase(phase, AloneLearnt(is_slower), now_s)) is None


@given(PHASES, TIMES)
def test_other_guests_end_all_doubt_but_do_not_end_the_learning(phase: Phase, now_s: float) -> None:
    changed = next_phase(phase, GuestsChanged(), now_s)
    assert changed in (Together(), LearningAlone(gated_since_s(phase) or 0.0))
    assert gated_since_s(changed) == gated_since_s(phase)


@given(PHASES, EVENTS, TIMES)
def test_compared_periods_last_until_the_comparison_is_decided_or_guests_change(
    phase: Phase, event: PhaseEvent, now_s: float
) -> None:
    if isinstance(phase, Comparing | ComparingAlone) and not isinstance(event, GuestsChanged):
        after = next_phase(phase, event, now_s)
        assert isinstance(after, Comparing | ComparingAlone)
        assert after.periods == phase.periods
