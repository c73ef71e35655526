"""Why guests stand still, said when they begin to and when they go on, to be read in their history."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from weft.node.controls import LEARNING, NO_ROOM, SHARING, Setting
from weft.node.holding import Key

if TYPE_CHECKING:
    from weft.node.attempt import Attempt

SOONEST_S = 10.0
"""From one word about a guest to the next: no shorter than a rest, so that each of those is told of, and no flood."""


class Telling:
    def __init__(self) -> None:
        self._said: dict[Key, tuple[str, float]] = {}
        """What was last said of each guest, and when. Nothing: that it shares goes without saying."""

    def tell(self, guest: Attempt, setting: Setting, now_s: float) -> None:
        """What has changed for it, if anything. That the holder is learnt alone takes a second or two and is no
        decision about the guest."""
        reason = setting.reason if setting.guests[guest.record.job].has_room else NO_ROOM
        said, at_s = self._said.get(guest.record.key, (SHARING, -math.inf))
        if reason not in (said, LEARNING) and now_s - at_s >= SOONEST_S:
            self._said[guest.record.key] = reason, now_s
            _say(guest, reason, setting.slowdown if reason == setting.reason else None)

    def part_with(self, guest: Attempt) -> None:
        """It is not held back any more, and goes on if it was to stand still. Who pauses or ends says that itself."""
        said, _ = self._said.pop(guest.record.key, (SHARING, 0.0))
        if said != SHARING and guest.is_settled:
            _say(guest, SHARING, None)


def _say(guest: Attempt, reason: str, slowdown: float | None) -> None:
    rounded = None if slowdown is None else round(slowdown, 4)
    guest.say("held-back", guest.record.generation, reason=reason, slowdown=rounded)
