"""Salus's assignment of jobs to devices and their lanes, with the safety condition kept at every step."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

from weft.core.job import Job
from weft.core.memory import Memory
from weft.core.sharing import Device


class Room:
    """What is left of one device's memory, and how large each of its lanes is: kept as members come.

    It is `core.memory.needed_bytes` turned round, so that asking for one more costs no walk over those who are there.
    What has no place has none when others have come, either: whoever makes a lane larger takes at least as much as a
    later one saves there.
    """

    __slots__ = ("_free_bytes", "_lanes")

    def __init__(self, capacity_bytes: int, members: Iterable[tuple[Memory, int]] = ()) -> None:
        self._free_bytes = capacity_bytes
        self._lanes: dict[int, int] = {}
        for memory, lane in members:
            self.add(memory, lane)

    def add(self, memory: Memory, lane: int) -> None:
        """A member of this lane; in lane 0 it takes turns with nobody."""
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
class Place:
    """A device and who is there with its lane, those who are being offered a seat among them."""

    device: Device
    device_type: str
    members: list[tuple[Job, int]]
    room: Room


class Line:
    """Places, those with the fewest members first, as they fill up."""

    def __init__(self, places: Iterable[Place], most_lanes: int, most_members: int) -> None:
        self._most_lanes, self._most_members = most_lanes, most_members
        self._places = [place for place in places if len(place.members) < most_members]
        self._places.sort(key=_fewest)

    def place_for(
        self, job: Job, memory: Memory, suits: Callable[[Device], bool] | None = None
    ) -> tuple[Place, int] | None:
        """The first with a lane for it, and the lane; of the devices that suit, if not all do."""
        for place in self._places:
            is_allowed = job.spec.allows(place.device_type) and (suits is None or suits(place.device))
            lane = place.room.choose_lane(memory, self._most_lanes) if is_allowed else None
            if lane is not None:
                return place, lane
        return None

    def add(self, place: Place, job: Job, memory: Memory, lane: int) -> None:
        del self._places[bisect_left(self._places, _fewest(place), key=_fewest)]
        place.members.append((job, lane))
        place.room.add(memory, lane)
        if len(place.members) < self._most_members:
            insort(self._places, place, key=_fewest)


def _fewest(place: Place) -> tuple[int, Device]:
    return len(place.members), place.device
