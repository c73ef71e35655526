"""GPU lanes (Salus): small jobs on one device take turns within a lane and run side by side across lanes."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import (
    FILLED,
    LEAST_SPEED,
    Device,
    Memory,
    Offer,
    Sharing,
    Withdrawal,
    devices_of,
    seated_lane,
)
from weft.core.view import View
from weft.policies.base import NO_LANE, Turns
from weft.policies.share.candidates import Candidate, utilisation_of
from weft.policies.share.opportunistic import SeatEffects
from weft.policies.share.seat_review import SeatReview, seated_otherwise

MICRO = 1_000_000
LONGEST_S = 1e12
"""A job of unknown length comes after all others; in microseconds it still fits a signed 64-bit integer."""
MOST_MEMBERS = 62

TURNS: Mapping[str, Callable[[Job, float], Turns]] = MappingProxyType(
    {
        "fair": lambda job, now: Turns(1, 0, 1),
        "pack": lambda job, now: Turns(1, 0, 0),
        "fifo": lambda job, now: Turns(1, job.tie[1], 0),
        "srtf": lambda job, now: Turns(1, int(MICRO * min(job.remaining_s(now), LONGEST_S)), -1),
    }
)
"""Which member of a lane has the next turn: the one that has used the least time; the one that has waited longest, so
that steps run in the order they come; the first that came; the one with the least remaining time.

The turn is of the least base + weight × microseconds used since it joined: what remained when it joined, less what it
has used since, is what remains now, so a lane need not be told how far its members are.
"""


@dataclass
class _GrantWatch:
    """Whether anything may have changed for the jobs that found no place at the last look.

    Changes report all but what the plan itself has just done. That shows in the job that was granted devices last, and
    how many hold some. A job that has progressed and computes has not come or gone: if it had left its seat for devices
    of its own, that was a grant.
    """

    _holders: tuple[int, str, int] = field(default=(-1, "", 0), init=False, repr=False)

    def has_come(self, view: View) -> bool:
        last = next(view.last_granted(), None)
        before = self._holders
        self._holders = (len(view.running), last.id, last.generation) if last else (0, "", 0)
        return before != self._holders or any(
            change is not Change.PROGRESSED or not job.is_computing for change, job in view.changes
        )


@dataclass
class Lanes:
    """Each waiting job of known memory gets a seat in a lane of the device with the fewest members."""

    in_lane: str = "fair"
    lanes: int = 8
    """At most so many lanes on one device."""
    members: int = MOST_MEMBERS
    """At most so many jobs on one device."""
    effects: SeatEffects = field(default_factory=SeatEffects)
    _review: SeatReview = field(default_factory=SeatReview, init=False, repr=False)
    _news: _GrantWatch = field(default_factory=_GrantWatch, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.in_lane not in TURNS:
            raise InputError(f'in_lane="{self.in_lane}" is no way to take turns', f"one of {', '.join(TURNS)}")
        if self.lanes < 1 or not 2 <= self.members <= MOST_MEMBERS:
            hint = f"at least 1 lane, and 2 to {MOST_MEMBERS} members: a lane's page has no room for more"
            raise InputError(f"{self.lanes} lanes with {self.members} members make no sense", hint)

    def turns_of(self, job: Job, now: float) -> Turns:
        return TURNS[self.in_lane](job, now) if job.gang_size == 1 and job.spec.may_share else NO_LANE

    def seat(self, view: View) -> Sharing:
        is_anew, _ = self._review.look(view)
        leaving = seated_otherwise(view, _takes_turns) if is_anew else []
        notes = self.effects.notes(view)
        offers = self._offers(view) if self._news.has_come(view) or is_anew else []
        return Sharing(offers, leaving, notes, _soon(view, leaving))

    def _offers(self, view: View) -> list[Offer]:
        """Each waiting job, by arrival, to the first device with a place: there are many jobs, and few kinds."""
        if view.jobs_waiting <= len(view.seated):
            return []
        line = LaneQueue(self._places(view), self.lanes, self.members)
        offers: list[Offer] = []
        too_large: dict[tuple[frozenset[str] | None, int], float] = {}  # the least P, by allowed types and T
        for job in view.jobs.values():
            memory = job.memory if _may_sit(job) else None
            if memory is None:
                continue
            is_bound = job.spec.is_bound
            kind = (job.spec.device_types, memory.ephemeral_bytes)
            if memory.persistent_bytes >= too_large.get(kind, math.inf):
                continue  # as others come there is less room, never more: see Room
            found = line.place_for(job, memory, _suiting(view, job) if is_bound else None)
            if found is None:
                too_large |= {} if is_bound else {kind: memory.persistent_bytes}
                continue
            place, lane = found
            offers.append(self._offer(view, job, place.device, lane, place.members))
            line.add(place, job, memory, lane)
        return offers

    def _places(self, view: View) -> Iterator[LanePlace]:
        """The devices that one more job could share with all members."""
        for device, members in _occupied(view):
            node = view.nodes[device[0]]
            known = [(job.memory, lane) for job, lane in members if job.spec.may_share]
            together = [(memory, lane) for memory, lane in known if memory is not None]
            if node.memory_bytes is not None and len(together) == len(members):
                yield LanePlace(device, node.device_type, members, LaneRoom(node.memory_bytes, together))

    def _offer(self, view: View, job: Job, device: Device, lane: int, members: list[tuple[Job, int]]) -> Offer:
        turns = self.turns_of(job, view.now)
        beside = [member for member, there in members if there == lane]
        code = Code.JOINED_LANE if beside else Code.OPENED_LANE
        named = ", ".join(one.id for one in (beside or [member for member, _ in members])[:3]) or "no job"
        seating = Seating(
            ((device[0], 1 << device[1]),),
            lane,
            base=turns.base,
            weight=turns.weight,
            speed=1.0 / (len(beside) + 1),
        )
        return Offer(job.id, seating, Reason(code, (lane, named)))


def _suiting(view: View, job: Job) -> Callable[[Device], bool]:
    """The devices where a job that is bound could sit."""

    def suits(device: Device) -> bool:
        node, at = device
        return view.admits(job.spec, ((node, 1 << at),))

    return suits


def _may_sit(job: Job) -> bool:
    return job.is_waiting and job.seating is None and job.gang_size == 1 and job.spec.may_share


def _takes_turns(seating: Seating) -> bool:
    return seating.lane > 0 and not seating.is_throttled


def _soon(view: View, leaving: Sequence[Withdrawal]) -> float:
    """A job that leaves a seat of another kind may have one of this kind afterwards."""
    return view.now + 1.0 if leaving else math.inf


def _occupied(view: View) -> Iterator[tuple[Device, list[tuple[Job, int]]]]:
    """Every device with its members and their lanes, the holder first."""
    held = view.holders()
    for node, there in enumerate(view.nodes):
        blocked = view.blocked_masks[node]
        for at in range(there.device_count if view.is_present[node] else 0):
            if not blocked >> at & 1:
                yield (node, at), view.members_on((node, at), held)


# ---- Salus's assignment of jobs to devices and their lanes, with the safety condition kept at every step.


class LaneRoom:
    """What is left of one device's memory, and how large each of its lanes is: kept as members come.

    It is `core.sharing.needed_bytes` turned round, so that asking for one more costs no walk over the members.
    A job without a place has none after others have come, either: a job that makes a lane larger takes at least as much
    as a later one saves there.
    """

    __slots__ = ("_free_bytes", "_lanes")

    def __init__(self, capacity_bytes: int, members: Iterable[tuple[Memory, int]] = ()) -> None:
        self._free_bytes = capacity_bytes
        self._lanes: dict[int, int] = {}
        for memory, lane in members:
            self.add(memory, lane)

    def add(self, memory: Memory, lane: int) -> None:
        """A member of this lane; in lane 0 it takes no turns."""
        size_bytes = self._lanes.get(lane, 0)
        more_bytes = max(0, memory.ephemeral_bytes - size_bytes)
        self._free_bytes -= memory.persistent_bytes + more_bytes
        if lane:
            self._lanes[lane] = size_bytes + more_bytes

    def choose_lane(self, job: Memory, most: int = 1_000) -> int | None:
        """A new lane, else the tightest that is large enough, else the smallest that may grow so far; or none.

        There are at most so many lanes. One is as large as its largest T, so joining never shrinks it below what
        members need.
        """
        spare_bytes, wanted_bytes = self._free_bytes - job.persistent_bytes, job.ephemeral_bytes
        if spare_bytes < 0:
            return None
        if wanted_bytes <= spare_bytes and len(self._lanes) < most:
            return next(number for number in count(1) if number not in self._lanes)
        tightest = self._smallest_from(wanted_bytes)
        return tightest if tightest is not None else self._smallest_from(wanted_bytes - spare_bytes)

    def _smallest_from(self, least_bytes: int) -> int | None:
        """Of the lanes that are so large or larger."""
        return min(((size, lane) for lane, size in self._lanes.items() if size >= least_bytes), default=(0, None))[1]


@dataclass(slots=True)
class LanePlace:
    """A device and its members with their lanes, including jobs that are being offered a seat."""

    device: Device
    device_type: str
    members: list[tuple[Job, int]]
    room: LaneRoom


class LaneQueue:
    """Places, those with the fewest members first, as they fill up."""

    def __init__(self, places: Iterable[LanePlace], most_lanes: int, most_members: int) -> None:
        self._most_lanes, self._most_members = most_lanes, most_members
        self._places = [place for place in places if len(place.members) < most_members]
        self._places.sort(key=_fewest)

    def place_for(
        self, job: Job, memory: Memory, suits: Callable[[Device], bool] | None = None
    ) -> tuple[LanePlace, int] | None:
        """The first with a lane for it, and the lane; of the devices that suit, if not all do."""
        for place in self._places:
            is_allowed = job.spec.allows(place.device_type) and (suits is None or suits(place.device))
            lane = place.room.choose_lane(memory, self._most_lanes) if is_allowed else None
            if lane is not None:
                return place, lane
        return None

    def add(self, place: LanePlace, job: Job, memory: Memory, lane: int) -> None:
        del self._places[bisect_left(self._places, _fewest(place), key=_fewest)]
        place.members.append((job, lane))
        place.room.add(memory, lane)
        if len(place.members) < self._most_members:
            insort(self._places, place, key=_fewest)


def _fewest(place: LanePlace) -> tuple[int, Device]:
    return len(place.members), place.device


# ---- A lane for the guests of one holder: they take turns, so that it feels one at a time however many they are.


@dataclass(frozen=True)
class GuestLane:
    """Its members need ΣP + max T instead of Σ(P + T), and use up what one of them alone would leave idle.

    The holder is in no lane with them and waits for no turn, and neither does a job packed with it. Only
    quiet jobs join: all on the device must ask for no more than `together` of it.
    """

    together: float = 0.9

    def offer(self, view: View, candidate: Candidate, guest: Job) -> Offer | None:
        """A place beside the guests there, throttled like them."""
        members = (*candidate.members, guest)
        if (
            not self._is_open(candidate)
            or guest.gang_size > 1
            or not guest.spec.may_share
            or len(members) > MOST_MEMBERS
        ):
            return None
        if not guest.spec.allows(view.nodes[candidate.allocation[0][0]].device_type):
            return None
        if sum(utilisation_of(member)[0] for member in members) > self.together:
            return None
        lane = lane_of(candidate)
        free = [(member, seated_lane(member)) for member in candidate.guests if not is_held_back(member)]
        in_turn = [(member, lane) for member in (*held_back(candidate), guest)]
        together = [(candidate.holder, candidate.holder.lane), *free, *in_turn]
        if not all(view.fits(device, together) for device in devices_of(candidate.allocation)):
            return None
        return _offer(candidate, guest, lane, (*held_back(candidate), guest))

    def moved(self, candidate: Candidate, restless: Sequence[Job], joining: Iterable[Job] = ()) -> list[Offer]:
        """These of its guests are to take turns with the others, and with those that join them."""
        in_turn = (*(one for one in candidate.guests if is_held_back(one) or one in restless), *joining)
        return [_offer(candidate, guest, lane_of(candidate), in_turn) for guest in restless]

    def _is_open(self, candidate: Candidate) -> bool:
        is_theirs = all(
            guest.seating and guest.seating.allocation == candidate.allocation for guest in candidate.guests
        )
        return bool(candidate.guests) and is_theirs and candidate.holder.gang_size == 1


def is_held_back(guest: Job) -> bool:
    return guest.seating is not None and guest.seating.is_throttled


def held_back(candidate: Candidate) -> list[Job]:
    return [guest for guest in candidate.guests if is_held_back(guest)]


def lane_of(candidate: Candidate) -> int:
    """The lane in which guests take turns, or else an empty one."""
    used = {candidate.holder.lane, *(seated_lane(guest) for guest in candidate.guests if not is_held_back(guest))}
    lanes = {seated_lane(guest) for guest in held_back(candidate)} - used - {0}
    return min(lanes, default=next(lane for lane in count(1) if lane not in used))


def _offer(candidate: Candidate, guest: Job, lane: int, in_turn: Sequence[Job]) -> Offer:
    """A place among those that are to take turns, the guest included: they share what the others leave idle."""
    others = [one.id for one in held_back(candidate) if one is not guest]
    free = [one for one in candidate.members if one not in in_turn]
    idle = max(0.0, 1.0 - sum(utilisation_of(one)[0] for one in free))
    speed = max(LEAST_SPEED, min(1.0, FILLED * idle / len(in_turn) / max(utilisation_of(guest)[0], 0.01)))
    seating = Seating(candidate.allocation, lane, is_throttled=True, speed=speed)
    code = Code.JOINED_LANE if others else Code.OPENED_LANE
    return Offer(guest.id, seating, Reason(code, (lane, ", ".join((others or [candidate.holder.id])[:3]))))
