"""What a node says of guests that it holds back: when they begin to stand still, why, and when they go on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from weft.node.devices.occupancy import NodeAttempts
from weft.node.sharing.throttle_state import GuestSetting, ThrottleSetting
from weft.node.sharing.throttled_guests import ThrottledGuests

HOLDER, GUEST = ("1", 1), ("2", 1)
LEARNING = ThrottleSetting({"2": GuestSetting(0)}, None, None, "learning")
SHARING = ThrottleSetting({"2": GuestSetting(5)}, None, 0, "sharing")
RESTING = ThrottleSetting({"2": GuestSetting(0)}, None, 0.04, "resting")
HOMELESS = ThrottleSetting({"2": GuestSetting(0, None, has_room=False)}, None, 0.01, "sharing")


class Seat:
    """A guest beside a holder; the test says what the throttle sets."""

    def __init__(self) -> None:
        self.said: list[tuple[str, float | None]] = []
        at = SimpleNamespace(is_guest=True, is_throttled=True)
        record = SimpleNamespace(job="2", key=GUEST, generation=3, seat=at)
        self.guest: Any = SimpleNamespace(record=record, say=self._say, is_settled=True, was_throttled=False)
        self.guest.set_own_limit = lambda: None
        company = NodeAttempts()
        company.attempts[GUEST] = self.guest
        self.guard: Any = ThrottledGuests(company)
        self.guard._wanted = lambda: ({GUEST: HOLDER}, set())
        self.guard._beside = {GUEST: HOLDER}
        self.guard._throttles = {HOLDER: SimpleNamespace(tick=lambda now_s: self.setting)}
        self.setting, self.now_s = LEARNING, 0.0

    def _say(self, what: str, generation: int, *, reason: str, slowdown: float | None) -> None:
        assert (what, generation) == ("held-back", 3)
        self.said.append((reason, slowdown))

    def set(self, *settings: ThrottleSetting, every_s: float = 20.0) -> None:
        for setting in settings:
            self.now_s += every_s
            self.setting = setting
            self.guard.tick(self.now_s)


@pytest.fixture
def seat() -> Seat:
    return Seat()


def test_a_guest_that_rests_is_told_of_once_and_once_that_it_goes_on(seat: Seat) -> None:
    seat.set(LEARNING, SHARING, LEARNING, RESTING, RESTING, LEARNING, RESTING, SHARING, SHARING, LEARNING, SHARING)
    assert seat.said == [("resting", 0.04), ("sharing", 0)]


def test_a_guest_without_room_is_told_of_whatever_the_others_do(seat: Seat) -> None:
    seat.set(SHARING, HOMELESS, HOMELESS, SHARING)
    assert seat.said == [("no room", None), ("sharing", 0)]


def test_changes_that_follow_each_other_closely_are_no_flood_and_the_last_of_them_is_told(seat: Seat) -> None:
    seat.set(*[HOMELESS, SHARING] * 500, HOMELESS, every_s=0.1)
    assert len(seat.said) <= 11
    seat.set(SHARING, SHARING)
    assert seat.said[-1][0] == "sharing"


@pytest.mark.parametrize("is_settled", [True, False])
def test_a_guest_that_is_held_back_no_more_goes_on_unless_it_is_to_pause_or_to_end(
    seat: Seat, is_settled: bool
) -> None:
    seat.set(RESTING)
    seat.guest.is_settled = is_settled
    seat.guard._freed(GUEST)
    seat.guard._freed(GUEST)
    assert seat.said == [("resting", 0.04)] + [("sharing", None)] * is_settled
