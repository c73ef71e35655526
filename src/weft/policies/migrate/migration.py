"""Moving jobs where that pays: away from others, to a faster type, together again, out of a waiting gang's way.

A move costs the job some of its time: as much as moves were measured to take, and at first as much as is assumed. It
pays when what is gained, for as long as the job is expected to run on, is more. How long jobs will take is not known;
the best guess is that one runs as long again as it has run. So what does not pay yet will, at an instant that is known.
What a move gained is measured and reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import LEFT, QUEUED, Change
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, devices_of
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Match, Placer, QueueOrder
from weft.policies.migrate.cost import MoveCost, MoveGains
from weft.policies.migrate.defrag import Defragmenter, fragments, largest_first, makes_room_for
from weft.policies.migrate.type_swap import TypeSwap
from weft.policies.migrate.unpack import leaves_seat, neighbours_of
from weft.policies.order.quota import QuotaClasses
from weft.policies.placement import whole_nodes_and_best_fit
from weft.policies.plan.free_devices import FreeDevices, NodeGroup, type_of
from weft.policies.plan.preemption import is_protected, placement_of, protected_until

MOST_MOVED = 2
"""So many jobs at most are moved to make room for one gang that waits."""
SOON_S = 1.0
"""So soon after a decision that grants devices comes the look for which it had no time, and so soon after a look that
moves jobs the decision on the devices that they leave."""
NEVER = math.inf


@dataclass(frozen=True, slots=True)
class JobMove:
    job: Job
    placement: Placement
    reason: Reason
    pays_at_s: float


@dataclass
class Migration:
    """Looks while nothing else is to be done, and not more often than every `look_every_s`.

    It asks to be woken when a move that there is room for begins to pay, and for changes that came when it could not
    look. It does not ask to be woken for what the last look has seen, nor where no job would gain by any free devices.
    """

    assumed_s: float = 30.0
    look_every_s: float = 60.0
    classes: QuotaClasses | None = None
    """Says which jobs are guaranteed; without it none are."""
    exchange: TypeSwap | None = None
    cost: MoveCost | None = None
    """Where others learn from the same moves; without it, one of its own."""
    _next_look_s: float = field(default=-math.inf, init=False, repr=False)
    _look_at_s: float = field(default=NEVER, init=False, repr=False)
    """When there is something to see that the last look has not seen."""
    _is_wanted: bool = field(default=False, init=False, repr=False)
    """Whether a job would gain if there were room: as of the last look, or come since."""
    _known: tuple[int, float] = field(default=(-1, 0.0), init=False, repr=False)
    """The version of the ledger, and what a move cost."""
    _groups: dict[str, NodeGroup] = field(default_factory=dict, init=False, repr=False)
    _gains: MoveGains = field(default_factory=MoveGains, init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.assumed_s >= 0:
            raise InputError(f"migration_s {self.assumed_s:g} is not 0 or more", "the default is 30")
        self._cost = self.cost or MoveCost(self.assumed_s)

    @property
    def cost_s(self) -> float:
        """What a move costs, as far as is known by now."""
        return self._cost.seconds

    def learn(self, view: View) -> None:
        """Take in what has been measured since. Called once for each decision, before everything else."""
        self._cost.learn(view)

    def with_guests_moved(self, view: View, plan: Plan) -> Plan:
        """The plan; guests that get devices elsewhere are reported as migrations."""
        parted = [grant for grant in plan.grants if leaves_seat(view, grant, plan.evictions)] if view.seated else []
        if not parted:
            return plan
        for grant in parted:
            self._gains.expect(view.jobs[grant.job_id], view.jobs[grant.job_id].measured)
        reasons = {grant.job_id: _parted(view, view.jobs[grant.job_id]) for grant in parted}
        grants = [replace(one, reason=reasons.get(one.job_id, one.reason)) for one in plan.grants]
        return replace(plan, grants=grants)

    def with_moves_instead(self, view: View, plan: Plan, place_for: Callable[[Job], Placer]) -> Plan:
        """The plan, with moves for a gang that lacks no more than a block, instead of preemptions."""

        def pays(job: Job, gain: float) -> bool:
            return self._pays_at_s(view, job, gain) <= view.now

        def may(job: Job, gang: Job) -> bool:
            return self._may_move_for(view, job, gang)

        spared = Defragmenter(view, place_for, pays, may).with_moves_instead(plan)
        if spared is plan:
            return plan
        planned = {grant.job_id for grant in plan.grants}
        for moved in (view.jobs[grant.job_id] for grant in spared.grants if grant.job_id not in planned):
            self._gains.expect(moved, moved.alone)
        return replace(spared, wake_at=min(plan.wake_at, view.now + SOON_S))  # the first plan reckoned with preemptions

    def with_moves(self, view: View, plan: Plan, order: QueueOrder, match: Match, place: Placer) -> Plan:
        """The plan with what is worth moving; if nothing is, the same plan, which may wake us."""
        self._hear(view, plan)
        if plan.grants or plan.evictions:
            has_room = self._exchanges or _leaves_free(view, plan)
            return self._waking(view, plan) if self._look_at_s < NEVER and has_room else plan
        if not (self._exchanges or any(view.free_counts)):
            return plan
        moves = self._look(view, order, match, place) if view.now + EPSILON_S >= self._next_look_s else []
        if not moves:
            return self._waking(view, plan)
        for move in moves:
            self._gains.expect(move.job, move.job.alone)
        grants = [Grant(move.job.id, move.placement, move.reason) for move in moves]
        evictions = [Eviction(move.job.id, move.reason) for move in moves]
        wake_at = view.now + SOON_S if view.jobs_waiting else self._look_at_s
        return Plan(grants, evictions, min(plan.wake_at, wake_at))

    def gains(self, view: View) -> list[Note]:
        """What the moves were worth, as far as that has been measured by now."""
        return self._gains.notes(view)

    @property
    def _exchanges(self) -> bool:
        """Whether jobs may move though nothing is free."""
        return self.exchange is not None and len(self._groups) > 1

    # ---- when to look

    def _hear(self, view: View, plan: Plan) -> None:
        """What has changed since the last look: a new job that would gain, or devices left to one that would."""
        known, self._known = self._known, (view.version, self.cost_s)
        if known[0] != view.version:
            self._groups, self._is_wanted = FreeDevices(view).groups, True
        granted = {each.job_id for each in plan.grants} if plan.grants else ()
        is_wanted = any(self._may_gain(view, view.jobs[each.job_id], each.placement) for each in plan.grants)
        is_wanted |= any(_suffers_spread(view.jobs[each.job_id]) for each in plan.evictions)
        has_changed = known != self._known or bool(plan.evictions)
        for change, job in view.changes:
            if change is QUEUED:
                is_wanted |= _suffers_spread(job) and job.id not in granted
            elif change is LEFT or (change is Change.PROGRESSED and not job.is_computing):
                has_changed = True  # it has left its devices, or its seat
            elif change is Change.STARTUP:
                has_changed = True  # it may be moved from now on
        self._is_wanted |= is_wanted
        if is_wanted or (self._is_wanted and has_changed):
            self._look_at_s = self._next_look_s

    def _waking(self, view: View, plan: Plan) -> Plan:
        wake_at = max(self._look_at_s, view.now + SOON_S)
        return Plan(plan.grants, plan.evictions, wake_at) if wake_at < plan.wake_at else plan

    def _look(self, view: View, order: QueueOrder, match: Match, place: Placer) -> list[JobMove]:
        self._next_look_s = view.now + self.look_every_s
        self._is_wanted, self._look_at_s = False, NEVER
        moves = list(self._moves(view, FreeDevices(view), order, match, place))
        if moves:  # some may gain by what those leave, or were not looked at because of them
            self._is_wanted, self._look_at_s = True, self._next_look_s
        self._look_at_s = max(self._look_at_s, self._next_look_s)
        return moves

    def _may_gain(self, view: View, job: Job, where: Sequence[tuple[int, int]]) -> bool:
        """Whether there are places where it would be better off than there, be they free or not."""
        spec, here = job.spec, view.nodes[where[0][0]].device_type
        if not spec.may_migrate or spec.is_bound:
            return False
        if _suffers_spread(job) and len(where) > self._groups[here].fewest(job.gang_size):
            return True
        if not spec.step_rate_hz or len(self._groups) < 2:
            return False
        return any(spec.allows(kind) and spec.rate_hz(kind) > spec.rate_hz(here) for kind in self._groups)

    def _pays_at_s(self, view: View, job: Job, gain: float) -> float:
        """When it begins to pay to move it, if it runs on where it is; nothing must protect it any more, too."""
        lacking_s = self.cost_s * (1.0 + gain) / gain - job.run_s(view.now)
        return max(view.now + lacking_s, protected_until(job))

    def _is_due(self, view: View, move: JobMove) -> bool:
        """Whether it pays by now. If not, it is looked at again when it does."""
        if move.pays_at_s <= view.now + EPSILON_S:
            return True
        self._look_at_s = min(self._look_at_s, move.pays_at_s)
        return False

    # ---- what to move

    def _moves(
        self, view: View, room: FreeDevices, order: QueueOrder, match: Match, place: Placer
    ) -> Iterator[JobMove]:
        has_moved = False
        for job in view.running.values():
            if self._may_gain(view, job, job.allocation):
                self._is_wanted = True
                better = self._better(view, room, job, match, place)
                move = next((one for one in better if self._is_due(view, one)), None)
                if move is not None:
                    room.give(placement_of(job))
                    room.take(move.placement)
                    has_moved = True
                    yield move
        if not has_moved:  # no job is moved twice, nor to devices that are just being left
            yield from list(self._out_of_the_way(view, room, order, match, place)) or self._exchanged(view)

    def _better(self, view: View, room: FreeDevices, job: Job, match: Match, place: Placer) -> Iterator[JobMove]:
        if may_move(view, job):
            yield from self._to_better_type(view, room, job, match, place)
            yield from self._together(view, room, job)

    def _to_better_type(
        self, view: View, room: FreeDevices, job: Job, match: Match, place: Placer
    ) -> Iterator[JobMove]:
        here = room.kind_of(placement_of(job))
        for kind in match.types(job.spec, tuple(room.groups)):
            gain = job.spec.rate_hz(kind) / job.spec.rate_hz(here) - 1.0
            pays_at_s = self._pays_at_s(view, job, gain) if kind != here and gain > 0 else NEVER
            if pays_at_s >= self._look_at_s:
                return  # it is looked at before, and types that are slower pay later still
            if room.total[kind] >= job.gang_size:
                placement = place.choose(job.spec, room.groups[kind], room.free)
                if placement is not None:
                    yield JobMove(job, placement, Reason(Code.MIGRATED, (f"to {kind}, where it is faster",)), pays_at_s)
                    return

    def _together(self, view: View, room: FreeDevices, job: Job) -> Iterator[JobMove]:
        """A gang that runs spread and suffers from it, if there is room for it on fewer nodes."""
        group = room.groups[room.kind_of(placement_of(job))]
        if not job.spec.skew or len(job.allocation) <= group.fewest(job.gang_size):
            return
        pays_at_s = self._pays_at_s(view, job, job.spec.skew)
        placement = whole_nodes_and_best_fit(job.gang_size, group, room.free) if pays_at_s < self._look_at_s else None
        if placement is not None:
            yield JobMove(job, placement, Reason(Code.MIGRATED, ("its gang is together again",)), pays_at_s)

    def _exchanged(self, view: View) -> list[JobMove]:
        if self.exchange is None or not self._exchanges:
            return []
        movable = [job for job in view.running.values() if may_move(view, job) and not is_protected(job, view.now)]
        moves = []
        for both in self.exchange.pairs(view, movable, self.cost_s):
            for job, other in (both, both[::-1]):
                here, there = type_of(job, view), type_of(other, view)
                is_faster = job.spec.rate_hz(there) > job.spec.rate_hz(here)
                why = "where it is faster" if is_faster else f"as {other.id} gains more by {here}"
                moves.append(
                    JobMove(job, placement_of(other), Reason(Code.MIGRATED, (f"to {there}, {why}",)), view.now)
                )
        self._look_at_s = min(self._look_at_s, self.exchange.pays_at_s)
        return moves

    def _out_of_the_way(
        self, view: View, room: FreeDevices, order: QueueOrder, match: Match, place: Placer
    ) -> Iterator[JobMove]:
        """Small jobs leave a node for fragments elsewhere, so that a gang that waits for a block gets one: of those
        that may start, the one that goes first."""
        most_free = {kind: max(room.free[node] for node in group) for kind, group in room.groups.items()}
        waiting = [job for job in view.jobs.values() if job.is_waiting and _waits_for_block(job, most_free)]
        self._is_wanted |= bool(waiting)

        def could_hold(job: Job) -> bool:
            return room.could_hold(place, job.spec, match.types(job.spec, tuple(room.groups)))

        in_order = sorted(waiting, key=lambda job: order.rank(view, job))
        gang = next((job for job in in_order if order.why_not(view, job, could_hold) is None), None)
        if gang is None:
            return
        for kind in match.types(gang.spec, tuple(room.groups)):
            group = room.groups[kind]
            if room.total[kind] < gang.gang_size or group.fewest(gang.gang_size) > 1:
                continue
            for node in sorted(group, key=lambda node: (-room.free[node], node))[:4]:
                moves = self._emptying(view, room, group, node, gang)
                if moves and self._is_due(view, moves[0]):  # they pay together
                    yield from moves
                    return

    def _may_move_for(self, view: View, job: Job, gang: Job) -> bool:
        return may_move(view, job) and (self.classes is None or self.classes.may_be_moved_for(job, gang))

    def _emptying(self, view: View, room: FreeDevices, group: NodeGroup, node: int, gang: Job) -> list[JobMove]:
        """Moves by which the node gets room for the gang, as soon as there are some that pay; none if that takes too
        many of them."""
        here = [job for job in view.running.values() if len(job.allocation) == 1 and job.allocation[0][0] == node]
        able = {
            job: max(view.now, self._pays_at_s(view, job, gang.gang_size / job.gang_size))
            for job in largest_first(here)
            if self._may_move_for(view, job, gang)
        }
        others = [other for other in group if other != node]
        for at_s in sorted({each for each in able.values() if each < self._look_at_s}):
            paying = [job for job, pays_at_s in able.items() if pays_at_s <= at_s]
            to = fragments(paying, gang.gang_size - room.free[node], others, room.free)
            if 0 < len(to) <= MOST_MOVED:
                return [JobMove(job, ((other, job.gang_size),), makes_room_for(gang), at_s) for job, other in to]
        return []


def may_move(view: View, job: Job) -> bool:
    if not job.spec.may_migrate or job.spec.is_bound or job.is_starting(view.now):
        return False
    return not view.guests or view.guests.keys().isdisjoint(devices_of(job.allocation))


def _leaves_free(view: View, plan: Plan) -> bool:
    """Whether devices are free when it has been carried out."""
    given = sum(view.jobs[each.job_id].gang_size for each in plan.evictions)
    taken = sum(view.jobs[each.job_id].gang_size for each in plan.grants)
    return sum(view.free_counts) + given > taken


def _parted(view: View, guest: Job) -> Reason:
    beside = [one for one in (guest.measured.neighbours if guest.measured else ()) if one in view.jobs]
    away = f", away from {', '.join(beside)}" if beside else ""
    speed = neighbours_of(view, guest).speed
    return Reason(Code.MIGRATED, (f"to a device of its own{away}: it had {speed:.2f}× of one",))


def _suffers_spread(job: Job) -> bool:
    return job.gang_size > 1 and bool(job.spec.skew)


def _waits_for_block(gang: Job, most_free: Mapping[str, int]) -> bool:
    """Whether it would be better off on one node, and none has room; one that has room waits for something else."""
    if not _suffers_spread(gang) or gang.spec.is_bound:
        return False
    return all(free < gang.gang_size or not gang.spec.allows(kind) for kind, free in most_free.items())
