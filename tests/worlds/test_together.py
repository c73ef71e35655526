"""How fast those run who are together on one device: in lanes, packed, or held back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.core.sharing import FILLED
from weft.sim.colocation import Fitted, Occupant, Profile, rates_on

NONE, SOME = Fitted(0.0), Fitted(0.2)


def busy(utilisation: float, heavy: float = 1.0, **rule: object) -> Occupant:
    return Occupant(Profile(utilisation, heavy), **rule)  # type: ignore[arg-type]


def rates(*occupants: Occupant, interference: Fitted = NONE) -> list[float]:
    return rates_on("any", occupants, interference)


# ---- lanes


def test_whoever_is_alone_has_the_device_whole() -> None:
    assert rates(busy(0.4, lane=3)) == [1.0]
    assert rates(busy(0.4, is_throttled=True)) == [1.0]


def test_the_members_of_a_lane_take_turns() -> None:
    assert rates(*[busy(1.0, lane=1)] * 4) == [0.25] * 4


def test_who_leaves_its_turn_unused_passes_it_on() -> None:
    assert rates(busy(0.5, lane=1), busy(0.3, lane=1)) == [1.0, 1.0]
    assert rates(busy(0.75, lane=1), busy(0.5, lane=1)) == pytest.approx([0.8, 0.8])


def test_in_turns_there_is_nobody_to_interfere_with_but_between_lanes_there_is() -> None:
    in_turns = rates(busy(0.4, lane=1), busy(0.4, lane=1), interference=SOME)
    side_by_side = rates(busy(0.4, lane=1), busy(0.4, lane=2), interference=SOME)
    assert in_turns == [1.0, 1.0]
    assert side_by_side == pytest.approx([1 / 1.08] * 2)


def test_a_lane_and_one_without_a_lane_share_the_device() -> None:
    assert rates(busy(1.0, lane=1), busy(1.0, lane=1), busy(1.0)) == pytest.approx([0.25, 0.25, 0.5])


def test_first_come_first_served_lets_the_first_run_as_if_alone() -> None:
    first, second, third = rates(*(busy(0.6, lane=1, base=base, weight=0) for base in (1, 2, 3)))
    assert first == 1.0
    assert second == pytest.approx(0.4 / 0.6)
    assert third < 0.001


def test_with_bases_the_order_in_which_they_are_named_does_not_matter() -> None:
    by_base = [busy(0.6, lane=1, base=base, weight=0) for base in (7, 3, 5)]
    last, first, second = rates(*by_base)
    assert first > second > last > 0


def test_two_with_one_base_do_not_have_the_device_twice() -> None:
    """Shortest remaining time first, and both have as long to go."""
    alike = [busy(1.0, lane=1, base=5000, weight=0)] * 2
    assert rates(*alike) == pytest.approx([0.5, 0.5])


# ---- held back


@pytest.mark.parametrize("utilisation", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("guests", [1, 2, 5])
def test_the_holder_hardly_feels_who_is_held_back(utilisation: float, guests: int) -> None:
    holder, *_ = rates(busy(utilisation), *[busy(1.0, 3.0, is_throttled=True)] * guests, interference=SOME)
    assert holder >= 0.98


def test_a_guest_that_is_held_back_gets_a_part_of_what_is_idle() -> None:
    _, guest = rates(busy(0.5), busy(1.0, is_throttled=True))
    assert guest == pytest.approx(FILLED * 0.5)


def test_a_quiet_guest_gets_all_it_wants_of_a_quiet_device() -> None:
    _, guest = rates(busy(0.2), busy(0.1, is_throttled=True))
    assert guest == 1.0


def test_several_guests_share_what_is_idle() -> None:
    _, *guests = rates(busy(0.5), *[busy(1.0, is_throttled=True)] * 3)
    assert guests == pytest.approx([FILLED * 0.5 / 3] * 3)


def test_beside_a_busy_holder_a_guest_stands_nearly_still_but_not_for_ever() -> None:
    _, guest = rates(busy(1.0), busy(1.0, is_throttled=True))
    assert 0 < guest < 0.01


def test_guests_with_no_holder_beside_them_are_held_back_by_nobody() -> None:
    assert rates(*[busy(0.4, is_throttled=True)] * 2) == [1.0, 1.0]


# ---- whoever they are

OCCUPANTS = st.builds(
    Occupant,
    st.builds(Profile, st.floats(0.05, 1.0), st.floats(0.5, 3.0)),
    lane=st.integers(0, 3),
    is_throttled=st.booleans(),
)
FAIR = settings(max_examples=300, derandomize=True, database=None, deadline=None)


@given(occupants=st.lists(OCCUPANTS, min_size=1, max_size=6), contention=st.floats(0.0, 0.5))
@FAIR
def test_nobody_is_faster_than_alone_or_stands_still(occupants: list[Occupant], contention: float) -> None:
    found = rates(*occupants, interference=Fitted(contention))
    assert len(found) == len(occupants)
    assert all(0.0 < rate <= 1.0 for rate in found)


@given(occupants=st.lists(OCCUPANTS, min_size=1, max_size=6))
@FAIR
def test_together_they_are_given_no_more_than_the_device_has(occupants: list[Occupant]) -> None:
    found = rates(*occupants)
    given_away = sum(one.profile.utilisation * rate for one, rate in zip(occupants, found, strict=True))
    assert given_away <= max(1.0, occupants[0].profile.utilisation) + 1e-3 * len(occupants) + 1e-9


@given(occupants=st.lists(OCCUPANTS, min_size=1, max_size=5), another=OCCUPANTS, contention=st.floats(0.0, 0.5))
@FAIR
def test_a_further_one_helps_nobody(occupants: list[Occupant], another: Occupant, contention: float) -> None:
    interference = Fitted(contention)
    before = rates(*occupants, interference=interference)
    after = rates(*occupants, another, interference=interference)
    assert all(new <= old * (1 + 1e-9) for old, new in zip(before, after, strict=False))
