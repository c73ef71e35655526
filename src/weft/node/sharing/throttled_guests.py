"""Guests that are throttled so that the holder of their devices runs as if alone: which guests, and for which holder.

There is one throttle for each holder with such guests, made and ended as attempts start, pause and end. A guest alone
computes at its full duty. Changes are reported, to be read in the guest's history.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from weft.core.errors import WeftError
from weft.node.attempt.context import contained
from weft.node.attempt.order import Wanted
from weft.node.devices import sched_idle
from weft.node.devices.occupancy import Key
from weft.node.sharing.pair_comparison import Comparisons
from weft.node.sharing.throttle import SeatedGuest, Throttle
from weft.node.sharing.throttle_controller import FIRST_DUTY
from weft.node.sharing.throttle_state import LEARNING, NO_ROOM, SHARING, GuestSetting, ThrottleSetting

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt
    from weft.node.devices.occupancy import NodeAttempts

SOONEST_S = 10.0
"""From one word about a guest to the next: no shorter than a rest, so that each of those is told of, and no flood."""

TICK_S, GLANCE_S = 0.1, 0.005
"""Two hundred glances a second take some 3 % of a core, so there are none where no burst is to be feared."""
PATIENCE_S = 2.0
"""For a guest that is to pause and stays throttled; or half of the time it has to come to a step boundary."""

log = logging.getLogger(__name__)


class ThrottleReports:
    def __init__(self) -> None:
        self._said: dict[Key, tuple[str, float]] = {}
        """What was last said of each guest, and when. Nothing: that it shares goes without saying."""

    def tell(self, guest: Attempt, setting: ThrottleSetting, now_s: float) -> None:
        """What has changed for it, if anything. That the holder is learnt alone takes a second or two and is no
        decision about the guest."""
        reason = setting.reason if setting.guests[guest.record.job].has_room else NO_ROOM
        said, at_s = self._said.get(guest.record.key, (SHARING, -math.inf))
        if reason not in (said, LEARNING) and now_s - at_s >= SOONEST_S:
            self._said[guest.record.key] = reason, now_s
            _say(guest, reason, setting.slowdown if reason == setting.reason else None)

    def part_with(self, guest: Attempt) -> None:
        """It is throttled no more, and runs on if it was gated. Pauses and exits are reported elsewhere."""
        said, _ = self._said.pop(guest.record.key, (SHARING, 0.0))
        if said != SHARING and guest.is_settled:
            _say(guest, SHARING, None)


def _say(guest: Attempt, reason: str, slowdown: float | None) -> None:
    rounded = None if slowdown is None else round(slowdown, 4)
    guest.say("held-back", guest.record.generation, reason=reason, slowdown=rounded)


class ThrottledGuests:
    def __init__(self, node_attempts: NodeAttempts) -> None:
        self._node_attempts = node_attempts
        self.comparisons = Comparisons(node_attempts)
        self._throttles: dict[Key, Throttle] = {}
        self._beside: dict[Key, Key] = {}
        """The holder for which each guest is throttled."""
        self._slowed: dict[Key, SeatedGuest] = {}
        """Guests that are throttled without measuring: their holder makes no steps, or they have several."""
        self._pausing: dict[Key, float] = {}
        """Guests that are to pause and have not yet, and until when they are throttled meanwhile."""
        self._reports = ThrottleReports()
        self._ticked_s = -math.inf

    @property
    def rest_s(self) -> float:
        """Until the next glance: a burst may be over in some hundredths of a second."""
        return GLANCE_S if any(throttle.is_tight for throttle in self._throttles.values()) else TICK_S

    def glance(self, now_s: float) -> None:
        """A tick if it is time for one, or if a holder needs more than it ever did: it is to have it while the step is
        on in which it does."""
        is_time = now_s - self._ticked_s >= TICK_S
        if is_time or any(_has_burst(throttle) for throttle in self._throttles.values()):
            self._ticked_s = now_s
            self.tick(now_s)

    def tick(self, now_s: float) -> None:
        sched_idle.catch_up()
        beside, slowed = self._wanted()
        for key in [*self._beside, *self._slowed]:
            if beside.get(key) != self._beside.get(key) or (key in slowed) != (key in self._slowed):
                self._part_with(key, now_s)
        for key in list(self._throttles.keys() - set(beside.values())):
            self._close(key)
        for key, holder in beside.items():
            if key not in self._beside:
                with contained(f"job {key[0]} is not throttled"):
                    self._add(key, holder)
        for key in slowed - self._slowed.keys():
            with contained(f"job {key[0]} is not slowed"):
                self._slow(key)
        held_back = beside.keys() | slowed
        for attempt in self._node_attempts:
            if attempt.was_throttled and attempt.record.key not in held_back and self._is_to_be_free(attempt, now_s):
                with contained("it is not let go", attempt):
                    self.release(attempt)
        for holder, throttle in list(self._throttles.items()):
            with contained(f"guests of job {holder[0]} are not throttled"):
                self._report_throttling(holder, throttle.tick(now_s), now_s)
        self.comparisons.tick(now_s)

    def release_when_paused(self, attempt: Attempt, now_s: float) -> None:
        """It is about to pause. A guest is gated no more, but throttled until it stands: on its way to the boundary,
        and while its memory is moved, it would take the core from jobs beside it."""
        self.comparisons.part_with(attempt)
        key = attempt.record.key
        is_held_back = key in self._beside or key in self._slowed
        if is_held_back and self._holders_beside(attempt):
            holder = self._beside.pop(key, None)
            if holder is not None:
                self._throttles[holder].release_when_paused(key[0])
            self._slowed.pop(key, None)
            self._reports.part_with(attempt)
            attempt.is_throttled = False
            self._pausing[key] = now_s + min(PATIENCE_S, attempt.context.graces.pause_grace_s / 2)
        elif is_held_back or key not in self._pausing:
            self.release(attempt)

    def release(self, attempt: Attempt) -> None:
        """Stop throttling: it paused, is ending, or now holds devices. Guests that were throttled for it are free
        too."""
        self.comparisons.part_with(attempt)
        key = attempt.record.key
        self._pausing.pop(key, None)
        if key in self._throttles:
            self._close(key)
        if key in self._beside or key in self._slowed:
            self._free(key)
        elif attempt.was_throttled:  # and is to pause, or by a coordinator that was killed
            task = attempt.attached()
            task.set_duty(100)
            sched_idle.undo(task.roots)
            attempt.set_own_limit()
        attempt.was_throttled = False

    def _wanted(self) -> tuple[dict[Key, Key], set[Key]]:
        """The holder for which each guest is to be throttled, and guests that are to be so without measuring."""
        beside, slowed = dict[Key, Key](), set[Key]()
        for guest in self._node_attempts:
            if not (guest.is_settled and guest.record.seat.is_guest and guest.record.seat.is_throttled):
                continue
            holders = self._holders_beside(guest)
            if len(holders) == 1 and _has_ranks(holders[0]):
                beside[guest.record.key] = holders[0].record.key
            elif holders:
                slowed.add(guest.record.key)
        return beside, slowed

    def _add(self, key: Key, holder: Key) -> None:
        guest = self._node_attempts.attempts[key]
        if holder not in self._throttles:
            held = self._node_attempts.attempts[holder]
            self._throttles[holder] = Throttle(
                held.attached(), _capacity_bytes(held), own_bytes=held.own_limit_bytes, on_cores=_is_on_cores(held)
            )
        guest.is_throttled = guest.was_throttled = True
        record = guest.record
        self._throttles[holder].add(
            SeatedGuest(key[0], guest.attached(), guest.own_limit_bytes, record.devices, record.lane)
        )
        self._beside[key] = holder

    def _slow(self, key: Key) -> None:
        guest = self._node_attempts.attempts[key]
        guest.is_throttled = guest.was_throttled = True
        seated = self._slowed[key] = SeatedGuest(key[0], guest.attached(), guest.own_limit_bytes)
        seated.obey(GuestSetting(FIRST_DUTY))
        if _is_on_cores(guest):
            seated.idle([pid for each in self._node_attempts.beside(guest) for pid in each.attached().roots])

    def _report_throttling(self, holder: Key, setting: ThrottleSetting, now_s: float) -> None:
        for key, beside in self._beside.items():
            if beside == holder:
                self._reports.tell(self._node_attempts.attempts[key], setting, now_s)

    def _part_with(self, key: Key, now_s: float) -> None:
        attempt = self._node_attempts.attempts.get(key)
        if attempt and attempt.order.wanted is Wanted.PAUSE:
            self.release_when_paused(attempt, now_s)
        else:
            self._free(key)

    def _is_to_be_free(self, attempt: Attempt, now_s: float) -> bool:
        until_s = self._pausing.get(attempt.record.key)
        if until_s is None or attempt.is_settled:
            return attempt.is_settled
        return now_s >= until_s or not self._holders_beside(attempt)

    def _holders_beside(self, guest: Attempt) -> list[Attempt]:
        return [each for each in self._node_attempts.beside(guest) if _is_held_up(each, guest)]

    def _free(self, key: Key) -> None:
        holder = self._beside.pop(key, None)
        if holder is not None:
            self._throttles[holder].remove(key[0])
        else:
            self._slowed.pop(key).free()
        self._freed(key)

    def _freed(self, key: Key) -> None:
        """It may be throttled anew."""
        if attempt := self._node_attempts.attempts.get(key):
            self._reports.part_with(attempt)
            attempt.is_throttled = attempt.was_throttled = False

    def _close(self, holder: Key) -> None:
        guests = [guest for guest, beside in self._beside.items() if beside == holder]
        self._throttles.pop(holder).close()
        for guest in guests:
            del self._beside[guest]
        for key in (*guests, holder):
            self._freed(key)


def _has_ranks(holder: Attempt) -> bool:
    try:
        return bool(holder.attached().ranks)
    except WeftError:  # its page is damaged; it is about to be ended
        return False


def _has_burst(throttle: Throttle) -> bool:
    try:
        return throttle.is_burst_seen
    except (WeftError, OSError):  # its page is gone; the next tick will say so
        return False


def _is_held_up(holder: Attempt, guest: Attempt) -> bool:
    """Whether it is to be as if alone. With one in its own lane it takes turns: throttled in its turn, the guest would
    keep it waiting."""
    is_in_one_lane = bool(holder.record.lane) and holder.record.lane == guest.record.lane
    return holder.is_settled and not holder.record.seat.is_guest and not is_in_one_lane


def _is_on_cores(attempt: Attempt) -> bool:
    """Then the kernel can let others compute only while it does not want to."""
    return bool(attempt.context.kind.cores(attempt.context.some(attempt.record.devices)))


def _capacity_bytes(holder: Attempt) -> int:
    """What there is to divide: of each of its devices, if each of its tasks has one. Nothing where what is over a limit
    would fail: guests were seated by what they need, and growth is seen within a second."""
    launch, devices = holder.record.launch, holder.context.some(holder.record.devices)
    has_one_each = int(launch["devices_per_task"]) == 1
    is_ours = has_one_each and holder.context.kind.overflows and not launch.get("strict")
    return min((device.memory_bytes for device in devices), default=0) if is_ours else 0
