"""Moving jobs where that pays: away from others, to a faster type, together again, out of a waiting gang's way.

A move costs the job some of its time: as much as moves were measured to take, and at first as much as is assumed. It
pays when what is gained, for as long as the job is expected to run on, is more. How long jobs will take nobody knows;
the best guess is that one runs as long again as it has run. What a move gained is measured and told. What was measured
is forgotten when the daemon is started anew: moves whose gain was not told by then never tell it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, devices_of
from weft.core.view import View
from weft.policies.draft import is_protected, placement_of
from weft.policies.group import NodeGroup
from weft.policies.move_cost import MoveCost
from weft.policies.parting import company_of, leaves_seat
from weft.policies.place.consolidated import best_fit, whole_nodes_and_best_fit
from weft.policies.room import Room
from weft.policies.stages import Match, Place

MOST_MOVED = 2
"""So many jobs at most are moved to make room for one gang."""


@dataclass(frozen=True, slots=True)
class Move:
    job: Job
    placement: Placement
    reason: Reason


@dataclass
class Migration:
    """Looks while nothing else is to be done, and not more often than every `look_every_s`."""

    assumed_s: float = 30.0
    look_every_s: float = 60.0
    _next_look_s: float = field(default=-math.inf, init=False, repr=False)
    _before: dict[str, tuple[int, float]] = field(default_factory=dict, init=False, repr=False)
    """Of those that were moved for speed: their lease and their rate before."""

    def __post_init__(self) -> None:
        if not self.assumed_s >= 0:
            raise InputError(f"migration_s {self.assumed_s:g} is not 0 or more", "the default is 30")
        self._cost = MoveCost(self.assumed_s)

    @property
    def cost_s(self) -> float:
        """What a move costs, as far as is known by now."""
        return self._cost.seconds

    def learn(self, view: View) -> None:
        """Take in what has been measured since. Called once for each decision, before everything else."""
        self._cost.learn(view)

    def told(self, view: View, plan: Plan) -> Plan:
        """The plan, with guests that get devices elsewhere told as what they are: moved away from others."""
        parted = [grant for grant in plan.grants if leaves_seat(view, grant, plan.evictions)] if view.seated else []
        if not parted:
            return plan
        for grant in parted:
            self._remember(view.jobs[grant.job_id])
        reasons = {grant.job_id: _parted(view, view.jobs[grant.job_id]) for grant in parted}
        grants = [replace(one, reason=reasons.get(one.job_id, one.reason)) for one in plan.grants]
        return replace(plan, grants=grants)

    def added(self, view: View, plan: Plan, match: Match, place: Place) -> Plan:
        """The plan with what is worth moving; the plan itself if nothing is."""
        if plan.grants or plan.evictions or view.now < self._next_look_s or not any(view.free_counts):
            return plan
        self._next_look_s = view.now + self.look_every_s
        moves = list(self._moves(view, Room(view), match, place))
        if not moves:
            return plan
        for move in moves:
            self._remember(move.job)
        grants = [Grant(move.job.id, move.placement, move.reason) for move in moves]
        return Plan(grants, [Eviction(move.job.id, move.reason) for move in moves], plan.wake_at)

    def gains(self, view: View) -> list[Note]:
        """What the moves were worth, as far as that has been measured by now."""
        notes = []
        for change, job in view.changes if self._before else ():
            generation, rate_hz = self._before.get(job.id, (0, 0.0))
            if change is Change.LEFT:
                self._before.pop(job.id, None)
            elif change is Change.MEASURED and rate_hz and job.measured and job.generation > generation:
                del self._before[job.id]
                notes.append(
                    Note(job.id, Reason(Code.MIGRATION_GAINED, (round(job.measured.rate_hz / rate_hz - 1, 3),)))
                )
        return notes

    def _remember(self, job: Job) -> None:
        """How fast it is where it leaves, if that was measured there."""
        if job.measured and job.measured.generation == job.generation:
            self._before[job.id] = (job.generation, job.measured.rate_hz)

    def _moves(self, view: View, room: Room, match: Match, place: Place) -> Iterator[Move]:
        has_moved, has_types = False, len(room.groups) > 1
        for job in view.running.values():
            if (has_types or len(job.allocation) > 1) and self._may_move(view, job):
                move = self._to_better_type(view, room, job, match, place) or self._together(view, room, job)
                if move is not None:
                    room.give(placement_of(job))
                    room.take(move.placement)
                    has_moved = True
                    yield move
        if not has_moved:  # nobody is moved twice, nor by where those stood who have just been moved
            yield from self._out_of_the_way(view, room, match)

    def _may_move(self, view: View, job: Job) -> bool:
        if not job.spec.may_migrate or is_protected(job, view.now):
            return False
        return not view.guests or view.guests.keys().isdisjoint(devices_of(job.allocation))

    def _pays(self, view: View, job: Job, gain: float) -> bool:
        return gain * job.run_s(view.now) > self.cost_s * (1.0 + gain)

    def _to_better_type(self, view: View, room: Room, job: Job, match: Match, place: Place) -> Move | None:
        if len(room.groups) < 2:
            return None
        here = room.kind_of(placement_of(job))
        for kind in match.types(job.spec, tuple(room.groups)):
            gain = job.spec.rate_hz(kind) / job.spec.rate_hz(here) - 1.0
            if kind == here or gain <= 0 or not self._pays(view, job, gain):
                return None
            if room.total[kind] >= job.gang_size:
                placement = place.choose(job.spec, room.groups[kind], room.free)
                if placement is not None:
                    return Move(job, placement, Reason(Code.MIGRATED, (f"to {kind}, where it is faster",)))
        return None

    def _together(self, view: View, room: Room, job: Job) -> Move | None:
        """A gang that runs spread and suffers from it, if there is room for it on fewer nodes."""
        if job.gang_size == 1 or not job.spec.skew or len(job.allocation) == 1:
            return None
        group = room.groups[room.kind_of(placement_of(job))]
        if len(job.allocation) <= group.fewest(job.gang_size) or not self._pays(view, job, job.spec.skew):
            return None
        placement = whole_nodes_and_best_fit(job.gang_size, group, room.free)
        if placement is None:
            return None
        return Move(job, placement, Reason(Code.MIGRATED, ("its gang is together again",)))

    def _out_of_the_way(self, view: View, room: Room, match: Match) -> Iterator[Move]:
        """Small jobs leave a node for fragments elsewhere, so that a gang that waits for a block gets one."""
        gang = min((job for job in view.jobs.values() if _waits_for_block(job)), key=lambda job: job.tie, default=None)
        if gang is None:
            return
        for kind in match.types(gang.spec, tuple(room.groups)):
            group = room.groups[kind]
            if room.total[kind] < gang.gang_size or group.fewest(gang.gang_size) > 1:
                continue
            for node in sorted(group, key=lambda node: (-room.free[node], node))[:4]:
                moves = self._emptying(view, room, group, node, gang)
                if moves:
                    yield from moves
                    return

    def _emptying(self, view: View, room: Room, group: NodeGroup, node: int, gang: Job) -> list[Move]:
        """Moves by which the node gets room for the gang; none if it has room, or if that takes too many."""
        lacking, free = gang.gang_size - room.free[node], list(room.free)
        here = [job for job in view.running.values() if len(job.allocation) == 1 and job.allocation[0][0] == node]
        able = sorted((job for job in here if self._may_move(view, job)), key=lambda job: (-job.gang_size, job.tie))
        moves: list[Move] = []
        others = [other for other in group if other != node]
        for job in able if lacking > 0 else ():
            to = best_fit(job.gang_size, others, free) if job.gang_size <= lacking or len(moves) == 0 else None
            if to is not None and lacking > 0 and self._pays(view, job, gang.gang_size / job.gang_size):
                free[to] -= job.gang_size
                lacking -= job.gang_size
                reason = Reason(Code.MIGRATED, (f"makes room for the gang of {gang.id}",))
                moves.append(Move(job, ((to, job.gang_size),), reason))
        return moves if lacking <= 0 and len(moves) <= MOST_MOVED else []


def _parted(view: View, guest: Job) -> Reason:
    beside = [one for one in (guest.measured.neighbours if guest.measured else ()) if one in view.jobs]
    away = f", away from {', '.join(beside)}" if beside else ""
    return Reason(Code.MIGRATED, (f"to a vacated device{away}: it had {company_of(view, guest).speed:.2f}× of one",))


def _waits_for_block(job: Job) -> bool:
    return job.is_waiting and job.gang_size > 1 and bool(job.spec.skew)
