"""How a device's memory is divided: its holder what it needs, guests what is left. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.core.value import value
from weft.system.units import LOWEST_DEVICE_LIMIT_BYTES

BARE, HEADROOM, ROOMY = 1.0, 1.05, 1.2
"""What must be, with room on top of it, and with as much as is better to have. The library keeps freed blocks for the
next step as far as the limit allows: a CNN with P + T of 42 MB took 55 ms a step at a limit of 47 MB, 20 of them to
fault pages in again, and 36 ms at 49 MB and above."""
WINDOW_S = 600.0
GRAIN_BYTES = 1 << 20
"""Limits are whole megabytes, so that they stay the same while needs differ by a tensor."""


@value
class Peak:
    """The most that was needed in the last five to ten minutes, so a validation every now and then finds its room."""

    now_bytes: int = 0
    before_bytes: int = 0
    turned_s: float = 0.0

    @property
    def bytes(self) -> int:
        return max(self.now_bytes, self.before_bytes)

    def noted(self, needed_bytes: int, now_s: float) -> Peak:
        if now_s - self.turned_s >= WINDOW_S / 2:
            return Peak(needed_bytes, self.now_bytes, now_s)
        return Peak(max(self.now_bytes, needed_bytes), self.before_bytes, self.turned_s)


@value
class Need:
    """Of a guest: what it must have (P), and what it could use besides (T); None: that is not known yet."""

    job_id: str
    persistent_bytes: int
    ephemeral_bytes: int | None
    lane: int = 0
    """Those in one lane take turns: what they use besides P they use one at a time. 0: it is in none."""


@value
class Division:
    """Limits that together are the whole device. A guest without one has no room: even its P does not fit."""

    holder_bytes: int
    guests: Mapping[str, int]
    headroom: float = HEADROOM
    """With which P counts."""

    def from_before(self, before: Mapping[str, int], guests: Sequence[Need], most_bytes: int) -> Division:
        """On the way there from what guests had before: less at once, more by `most_bytes` at most. P they have at
        once, and all there is while their needs are not known: they load their model. The holder has what they have not
        yet."""
        limits = dict(self.guests)
        for guest in guests:
            if guest.job_id in limits and guest.ephemeral_bytes is not None:
                least_bytes = max(before.get(guest.job_id, 0), _with_headroom(guest.persistent_bytes))
                limits[guest.job_id] = min(limits[guest.job_id], least_bytes + most_bytes)
        less_bytes = _charged(self.guests, guests, self.headroom) - _charged(limits, guests, self.headroom)
        return replace(self, holder_bytes=self.holder_bytes + less_bytes, guests=limits)


def divided(capacity_bytes: int, holder_bytes: int, guests: Sequence[Need]) -> Division:
    """The holder's need first. Then P of the guests, in their order; then room for the holder; then T, of the guest
    that lacks least; those in a lane have it together.

    That is the greedy way: the smaller the lack, the more a byte gains. What no job needs is the holder's, so a burst
    of its that fits in there costs nothing. No job has headroom for which a guest would have to leave: the policy that
    chose the seat reckoned with what is needed and no more.
    """
    capacity_bytes -= capacity_bytes % GRAIN_BYTES
    ways = [_divided(capacity_bytes, holder_bytes, guests, headroom) for headroom in (HEADROOM, BARE)]
    return max(ways, key=lambda way: len(way.guests))


def _divided(capacity_bytes: int, holder_bytes: int, guests: Sequence[Need], headroom: float) -> Division:
    least_bytes = _with_headroom(holder_bytes, headroom)
    left_bytes = capacity_bytes - min(capacity_bytes, least_bytes)
    limits: dict[str, int] = {}
    for guest in guests:
        lasting_bytes = _with_headroom(guest.persistent_bytes, headroom)
        if lasting_bytes <= left_bytes:
            limits[guest.job_id] = lasting_bytes
            left_bytes -= lasting_bytes
    left_bytes -= min(left_bytes, _with_headroom(holder_bytes, ROOMY) - least_bytes)
    seated = [guest for guest in guests if guest.job_id in limits]
    lacking = [{each.job_id: _lack(each, limits[each.job_id], left_bytes) for each in one} for one in _by_lane(seated)]
    for lacks_bytes in sorted(lacking, key=lambda each: (max(each.values()), min(each))):
        granted_bytes = min(max(lacks_bytes.values()), left_bytes)
        left_bytes -= granted_bytes
        for job_id, lack_bytes in lacks_bytes.items():
            limits[job_id] += min(lack_bytes, granted_bytes)
    return Division(capacity_bytes - _charged(limits, guests, headroom), limits, headroom)


def _charged(limits: Mapping[str, int], guests: Sequence[Need], headroom: float) -> int:
    """What such limits take of the device: of those in one lane, besides P, the largest."""
    charged_bytes = 0
    for lane in _by_lane([guest for guest in guests if guest.job_id in limits]):
        lasting = {guest.job_id: _with_headroom(guest.persistent_bytes, headroom) for guest in lane}
        charged_bytes += sum(lasting.values()) + max(limits[job_id] - lasting[job_id] for job_id in lasting)
    return charged_bytes


def _by_lane(guests: Sequence[Need]) -> list[list[Need]]:
    """A guest in no lane is by itself."""
    lanes: dict[int | str, list[Need]] = {}
    for guest in guests:
        lanes.setdefault(guest.lane or guest.job_id, []).append(guest)
    return list(lanes.values())


def divided_on_each(
    capacity_bytes: int, holder_bytes: int, devices: Sequence[Sequence[Need]], before: Mapping[str, int], more: int
) -> Division:
    """For a gang, some of whose devices have guests: each has one limit on all its devices, the lowest; a guest without
    room on one of them has none. `before`: what guests had; `more`: so many bytes more they may have now."""
    if not devices:
        return divided(capacity_bytes, holder_bytes, ())
    each = [divided(capacity_bytes, holder_bytes, needs).from_before(before, needs, more) for needs in devices]
    homeless = {
        need.job_id
        for needs, division in zip(devices, each, strict=True)
        for need in needs
        if need.job_id not in division.guests
    }
    limits: dict[str, int] = {}
    for division in each:
        for job_id, limit_bytes in division.guests.items():
            if job_id not in homeless:
                limits[job_id] = min(limits.get(job_id, limit_bytes), limit_bytes)
    return Division(min(division.holder_bytes for division in each), limits)


def _lack(guest: Need, has_bytes: int, left_bytes: int) -> int:
    if guest.ephemeral_bytes is None:
        return left_bytes
    return _with_headroom(guest.persistent_bytes + guest.ephemeral_bytes, ROOMY) - has_bytes


def _with_headroom(needed_bytes: int, headroom: float = HEADROOM) -> int:
    """Never 0, which would mean that there is no limit."""
    return max(whole_grains(needed_bytes * headroom), LOWEST_DEVICE_LIMIT_BYTES)


def whole_grains(some_bytes: float) -> int:
    """Rounded up."""
    return -int(-some_bytes // GRAIN_BYTES) * GRAIN_BYTES
