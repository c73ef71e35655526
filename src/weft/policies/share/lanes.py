"""GPU lanes (Salus): many small jobs on one device, in turns within a lane, side by side across lanes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from weft.core.bounds import admits, cpus_left
from weft.core.commands import Seating
from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Device, Offer, Sharing, Withdrawal, holders, members_on
from weft.core.view import View
from weft.policies.share.effects import Effects
from weft.policies.share.lane_choice import Line, Place, Room
from weft.policies.share.rejudging import Rejudging, seated_otherwise
from weft.policies.stages import NO_LANE, Turns

MICRO = 1_000_000
LONGEST_S = 1e12
"""Whoever does not say how long it takes comes after all who do; it still fits a signed word in microseconds."""
MOST_MEMBERS = 62

TURNS: Mapping[str, Callable[[Job, float], Turns]] = MappingProxyType(
    {
        "fair": lambda job, now: Turns(1, 0, 1),
        "pack": lambda job, now: Turns(1, 0, 0),
        "fifo": lambda job, now: Turns(1, job.tie[1], 0),
        "srtf": lambda job, now: Turns(1, int(MICRO * min(job.remaining_s(now), LONGEST_S)), -1),
    }
)
"""How the members of a lane take turns: who has used the least time; who has waited longest for this turn, so that
steps run in the order they come; the first that came; who has the least remaining time.

The turn is of the least base + weight × microseconds used since it joined: what remained when it joined, less what it
has used since, is what remains now, so nobody has to tell a lane how far its members are.
"""


@dataclass
class _News:
    """Whether anything may have changed for those who found no place when they were last looked at.

    Changes tell all but what the plan itself has just done. Of that, who was granted devices last tells, and how many
    hold some. Who has progressed and computes has not come or gone: if it had left its seat for devices of its own,
    that was a grant.
    """

    _holders: tuple[int, str, int] = field(default=(-1, "", 0), init=False, repr=False)

    def has_come(self, view: View) -> bool:
        last = next(reversed(view.ledger.running.values()), None)
        before = self._holders
        self._holders = (len(view.running), last.id, last.generation) if last else (0, "", 0)
        return before != self._holders or any(
            change is not Change.PROGRESSED or not job.is_computing for change, job in view.changes
        )


@dataclass
class Lanes:
    """Whoever waits and whose memory is known sits down in a lane of the device with the fewest members."""

    in_lane: str = "fair"
    lanes: int = 8
    """How many of them at most on one device."""
    members: int = MOST_MEMBERS
    """How many jobs at most on one device."""
    effects: Effects = field(default_factory=Effects)
    _rejudging: Rejudging = field(default_factory=Rejudging, init=False, repr=False)
    _news: _News = field(default_factory=_News, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.in_lane not in TURNS:
            raise InputError(f'in_lane="{self.in_lane}" is no way to take turns', f"one of {', '.join(TURNS)}")
        if self.lanes < 1 or not 2 <= self.members <= MOST_MEMBERS:
            hint = f"at least 1 lane, and 2 to {MOST_MEMBERS} members: a lane's page has no room for more"
            raise InputError(f"{self.lanes} lanes with {self.members} members make no sense", hint)

    def turns_of(self, job: Job, now: float) -> Turns:
        return TURNS[self.in_lane](job, now) if job.gang_size == 1 and job.spec.may_share else NO_LANE

    def seat(self, view: View) -> Sharing:
        is_anew, _ = self._rejudging.look(view)
        leaving = seated_otherwise(view, _takes_turns) if is_anew else []
        notes = self.effects.notes(view)
        offers = self._offers(view) if self._news.has_come(view) or is_anew else []
        return Sharing(offers, leaving, notes, _soon(view, leaving))

    def _offers(self, view: View) -> list[Offer]:
        """Each who waits, by arrival, to the first device with a place: there are many of them, and few kinds."""
        if view.jobs_waiting <= len(view.seated):
            return []
        line = Line(self._places(view), self.lanes, self.members)
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

    def _places(self, view: View) -> Iterator[Place]:
        """The devices that one more could share with all who are there."""
        for device, members in _occupied(view):
            node = view.nodes[device[0]]
            known = [(job.memory, lane) for job, lane in members if job.spec.may_share]
            together = [(memory, lane) for memory, lane in known if memory is not None]
            if node.memory_bytes is not None and len(together) == len(members):
                yield Place(device, node.device_type, members, Room(node.memory_bytes, together))

    def _offer(self, view: View, job: Job, device: Device, lane: int, members: list[tuple[Job, int]]) -> Offer:
        turns = self.turns_of(job, view.now)
        beside = [member for member, there in members if there == lane]
        code = Code.JOINED_LANE if beside else Code.OPENED_LANE
        named = ", ".join(one.id for one in (beside or [member for member, _ in members])[:3]) or "nobody"
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
        return admits(view.ledger, cpus_left(view.ledger), job.spec, ((node, 1 << at),))

    return suits


def _may_sit(job: Job) -> bool:
    return job.is_waiting and job.seating is None and job.gang_size == 1 and job.spec.may_share


def _takes_turns(seating: Seating) -> bool:
    return seating.lane > 0 and not seating.is_throttled


def _soon(view: View, leaving: Sequence[Withdrawal]) -> float:
    """Who leaves a seat of another kind may have one of this kind when it has."""
    return view.now + 1.0 if leaving else math.inf


def _occupied(view: View) -> Iterator[tuple[Device, list[tuple[Job, int]]]]:
    """Every device with its members and their lanes, whoever holds it first."""
    held = holders(view.ledger)
    for node, there in enumerate(view.nodes):
        blocked = view.ledger.blocked_masks[node]
        for at in range(there.device_count if view.is_present[node] else 0):
            if not blocked >> at & 1:
                yield (node, at), members_on(view.ledger, (node, at), held)
