"""The fast planner: keeps the line between decisions and looks only where something has changed.

What it relies on: going down the line, the devices that a job could have (the free ones and those of running jobs
behind it) only become fewer. So

- a change at one place in the line cannot matter to the jobs before it;
- once a job of some shape finds no place, no later job of that shape does;
- a job that waited before, with no more devices to choose from now, still waits.

Where devices are kept for a gang, that holds for jobs that stand alike to what is kept, and so does their shape.

It also relies on keys that end with the job's tie, on jobs that block standing before all that do not, on a match
that depends on nothing but descriptions; `Policy` takes the plain planner where one of these does not hold. While jobs
are live that are bound to devices or CPU cores, or have a priority, the plain planner decides here as well.

A decision is therefore a walk over few candidates: the newcomers, and of each shape the first waiting job behind
the place where devices became available. It makes the very plan that `scratch` makes; a test holds it to that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import ClassVar

from weft.core.job import Job
from weft.core.ledger import LEFT, QUEUED, Change
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Everyone, Key, KeyedOrder, Match, Placer
from weft.policies.migrate.unpack import Staying
from weft.policies.plan.draft import only_starts_up
from weft.policies.plan.free_devices import home_of, make_way, make_way_home
from weft.policies.plan.full_scan import ScratchPlanner
from weft.policies.plan.queue_index import FRONT, Entry, QueueIndex, Shape, earlier
from weft.policies.plan.queue_position import LinePositions, positions
from weft.policies.plan.reservation import Reservations

PROGRESSED, STARTUP = Change.PROGRESSED, Change.STARTUP
FITS, FITS_AFTER_PREEMPTING, PREEMPTED_FOR = Code.FITS, Code.FITS_AFTER_PREEMPTING, Code.PREEMPTED_FOR


class IncrementalPlanner:
    """Order, match, place for an order that has keys; everybody is admitted."""

    may_place_anew: ClassVar[bool] = True

    def __init__(self, order: KeyedOrder, match: Match, place: Placer) -> None:
        self._order = order
        self._match = match
        self._place = place
        self._line: QueueIndex | None = None
        self._scan = ScratchPlanner(Everyone(), order, match, place)
        self.reservations = self._scan.reservations or Reservations(order, place)
        self.staying = self._scan.staying

    def decide(self, view: View) -> Plan:
        freed: Key | None
        if view.has_exceptions:  # jobs that neither shapes nor keys describe
            self._line = None
            return self._scan.decide(view)
        if self._order.learn(view) or self._line is None or self._line.version != view.version:
            self._line = QueueIndex(view, self._order, self._match, self._place)
            self._line.settle(view.now, [])
            freed, newcomers = FRONT, list[Entry]()
        else:
            freed, newcomers = self._catch_up(self._line, view)
        if self._line.jobs_waiting and (freed is not None or newcomers):
            reserved = self.reservations if self._order.may_reserve else None
            if reserved is not None:
                reserved.begin(view.version)
            walk = _Walk(self._line, self._order, self._place, view.now, self.staying, reserved)
            walk.go(freed, newcomers)
            return Plan(walk.grants, walk.evictions() if walk.evicted else (), self._line.wake_at(view.now))
        return Plan((), (), self._line.wake_at(view.now))

    def positions(self, view: View) -> LinePositions | None:
        """Of the jobs that wait, as of the view; None if the line does not tell."""
        return positions(self._line, self._order, view)

    def forget(self) -> None:
        """What was planned is not what was done: begin anew."""
        self._line = None

    def why(self, view: View, job: Job) -> None:
        """Whatever there is to say, the stages say."""

    def _catch_up(self, line: QueueIndex, view: View) -> tuple[Key | None, list[Entry]]:
        """Take in what has happened. Returns from where on devices became available, and who is new."""
        now = view.now
        newcomers: list[Entry] = []
        freed = line.settle(now, newcomers) if line.unsettled else None
        for change, job in view.changes:
            if change is QUEUED:
                newcomers.append(line.queue(job, now))
            elif change is LEFT:
                freed = earlier(freed, line.leave(job))
            elif job.id in line.entries and (change in (PROGRESSED, STARTUP) or self._order.heeds_measures):
                entry = line.entries[job.id]
                if change is STARTUP and entry.is_running and self._order.preempts:
                    freed = earlier(freed, line.review_startup(entry, now))
                freed = earlier(freed, line.rank_again(entry, now, newcomers))
                line.expect_change(entry, now)
        if line.changing and line.changing[0][0] <= now + EPSILON_S:
            freed = earlier(freed, line.apply_changes(now, newcomers))
        if line.protected:
            freed = earlier(freed, line.end_protection(now))
        return self._from_where(freed, newcomers), newcomers

    def _from_where(self, freed: Key | None, newcomers: list[Entry]) -> Key | None:
        """From where on to look, seeing that devices became available there."""
        order = self._order
        if order.drifts:
            return FRONT  # anybody may have passed anybody
        looks_ahead = order.may_block or order.may_reserve
        if looks_ahead and newcomers:
            return FRONT  # a newcomer may stand behind one that blocks, or for whom devices are kept
        if freed is not None and (looks_ahead or not order.preempts):
            return FRONT  # what became free is free for everybody
        return freed


class _Walk:
    """One decision: down the line, from candidate to candidate."""

    __slots__ = (
        "_candidates",
        "_is_sorted",
        "_line",
        "_looks_from",
        "_now",
        "_order",
        "_place",
        "_reach",
        "_reserved",
        "_staying",
        "evicted",
        "grants",
    )

    def __init__(
        self,
        line: QueueIndex,
        order: KeyedOrder,
        place: Placer,
        now: float,
        staying: Staying,
        reserved: Reservations | None = None,
    ) -> None:
        self.grants: list[Grant] = []
        self._line = line
        self._order = order
        self._place = place
        self._now = now
        self._staying = staying
        self._reserved = reserved
        self._candidates: list[tuple[Key, Entry]] = []
        self.evicted: dict[str, tuple[Entry, Reason]] = {}
        self._reach = math.inf
        """No later candidate could have more devices of one type than this, free or of jobs behind it."""
        self._is_sorted = not order.drifts
        """Whether those that may be evicted stand in order."""
        self._looks_from: Key | None = None
        """Behind this place the first of every shape is a candidate; before it only newcomers are."""

    def go(self, freed: Key | None, newcomers: list[Entry]) -> None:
        candidates, order, total = self._candidates, self._order, self._line.room.total
        is_sorted = self._is_sorted
        for entry in newcomers:
            if (freed is None or entry.key <= freed) and self._line.entries.get(entry.job.id) is entry:
                candidates.append((entry.key, entry))
        if freed is not None:
            self._look_at_all_behind(freed)
        heapify(candidates)
        hopeless: set[Shape] = set()
        while candidates and self._reach > 0:
            key, entry = heappop(candidates)
            if entry.is_running or (entry.shape in hopeless and not entry.is_evicted):
                continue
            if is_sorted and not any(total.values()) and not self._line.starting and self._is_last(key):
                return  # nothing is free, and nobody who runs stands behind this place in the line
            if entry.job.gang_size <= self._reach and self._settle_somewhere(entry):
                if self._looks_from is not None:
                    self._look_at_next(entry.shape, key)
            else:
                hopeless.add(entry.shape)
                if self._reserved is not None:
                    self._reserve(entry, self._reserved)
                if order.may_block and order.blocks(entry.job, self._now) and self._line.could_hold(entry):
                    return

    def evictions(self) -> list[Eviction]:
        """Whom the plan evicts in the end; nobody is evicted any more as far as the line goes."""
        for entry, _ in self.evicted.values():
            entry.is_evicted = False
        return [Eviction(job_id, reason) for job_id, (_, reason) in self.evicted.items()]

    # ---- candidates

    def _is_last(self, key: Key) -> bool:
        return all(not runners.keys or runners.keys[-1] < key for runners in self._line.runners.values())

    def _look_at_all_behind(self, key: Key) -> None:
        self._looks_from = key
        for ranked in self._line.waiting.values():
            at = 0 if ranked.keys[0] > key else ranked.after(key)
            if at < len(ranked.keys):
                self._candidates.append((ranked.keys[at], ranked.items[at]))

    def _look_at_next(self, shape: Shape, key: Key) -> None:
        ranked = self._line.waiting.get(shape)
        if ranked is not None:
            at = ranked.after(key)
            if at < len(ranked.keys):
                heappush(self._candidates, (ranked.keys[at], ranked.items[at]))

    # ---- one candidate

    def _settle_somewhere(self, entry: Entry) -> bool:
        if entry.is_evicted and self._line.room.holds(entry.placement):
            del self.evicted[entry.job.id]  # its devices were not needed after all
            self._line.return_home(entry, self._now)
            return True
        return self._start_on_free(entry) or (self._order.preempts and self._start_evicting(entry))

    def _start_on_free(self, entry: Entry) -> bool:
        room, gang_size = self._line.room, entry.job.gang_size
        home, place = self._home_of(entry), self._place_for(entry)
        if home is not None and room.holds(home):
            self._give_free(entry, home)
            return True
        for kind in entry.kinds:
            if room.total[kind] >= gang_size:
                placement = place.choose(entry.job.spec, room.groups[kind], room.free)
                if placement is not None:
                    self._give_free(entry, placement)
                    return True
        return False

    def _start_evicting(self, entry: Entry) -> bool:
        line, room, gang_size = self._line, self._line.room, entry.job.gang_size
        if not self._is_sorted:
            line.sort_drifting(self._now)
            self._is_sorted = True
        if self._start_at_home(entry):
            return True
        most, place = 0, self._place_for(entry)
        for kind in entry.kinds:
            runners, free = line.runners[kind], room.total[kind]
            at = runners.after(entry.key)
            if runners.covers_from(at, gang_size - free):
                way = make_way(place, entry.job.spec, room.groups[kind], room.free, runners.items[at:])
                if way is not None:
                    self._take_from(entry, kind, *way)
                    return True
            most = max(most, free + runners.weight_from(at))
        if line.starting and self._order.is_guaranteed(entry.job) and self._start_ending_startups(entry):
            return True
        if len(entry.kinds) == len(line.runners) and not line.starting:
            self._reach = most
        return False

    def _start_at_home(self, entry: Entry, starting: Sequence[Entry] = ()) -> bool:
        home = self._home_of(entry)
        if home is None:
            return False
        kind = self._line.room.kind_of(home)
        leaving = make_way_home(home, self._line.room, self._behind(entry, kind, starting))
        if leaving is None:
            return False
        self._take_from(entry, kind, home, leaving)
        return True

    def _start_ending_startups(self, entry: Entry) -> bool:
        """Of those that start up, as few as possible leave, and only where all others that may leave are not enough."""
        line, place = self._line, self._place_for(entry)
        starting_up = [one for one in line.starting.values() if only_starts_up(one.job, self._now)]
        keys = {one.job.id: self._order.key(one.job, self._now) for one in starting_up}
        starting = sorted(
            (one for one in starting_up if keys[one.job.id] > entry.key), key=lambda one: keys[one.job.id]
        )
        if self._start_at_home(entry, starting):
            return True
        for kind in entry.kinds:
            behind = self._behind(entry, kind, starting)
            way = make_way(place, entry.job.spec, line.room.groups[kind], line.room.free, behind)
            if way is not None:
                self._take_from(entry, kind, *way)
                return True
        return False

    def _behind(self, entry: Entry, kind: str, starting: Sequence[Entry]) -> list[Entry]:
        """Those it may evict, who leaves last first."""
        runners = self._line.runners[kind]
        return [*(one for one in starting if one.kind == kind), *runners.items[runners.after(entry.key) :]]

    def _home_of(self, entry: Entry) -> Placement | None:
        wants_home = self._order.returns_home or entry.job.seating
        home = home_of(entry.job, self._line.room, entry.kinds, self._place) if wants_home else None
        return None if home is None or self._is_kept(entry, home) else home

    def _is_kept(self, entry: Entry, placement: Placement) -> bool:
        """Whether those devices are reserved for somebody else."""
        return self._reserved is not None and not self._reserved.allows(entry.job, placement)

    def _place_for(self, entry: Entry) -> Placer:
        return self._place if self._reserved is None else self._reserved.place_for(entry.job)

    def _reserve(self, entry: Entry, reserved: Reservations) -> None:
        line, key = self._line, entry.key
        if not self._is_sorted:
            line.sort_drifting(self._now)
            self._is_sorted = True

        def behind(kind: str) -> list[Entry]:
            runners = line.runners[kind]
            return runners.items[runners.after(key) :]

        def ahead(kind: str) -> list[Entry]:
            left = {one.job.id for one in behind(kind)}
            running = (one for one in line.entries.values() if one.is_running and one.kind == kind)
            return [one for one in running if one.job.id not in left]

        reserved.reserve(entry.job, entry.kinds, line.room, behind, ahead)

    def _give_free(self, entry: Entry, placement: Placement) -> None:
        """Unless it is a guest that goes on where it sits: then it is seen to, and the next in line may have them."""
        room = self._line.room
        if entry.job.seating is not None and self._staying.declines(entry.job, placement):
            home = self._staying.free_home(entry.job, room)
            if home is None or self._is_kept(entry, home):
                return
            placement = home
        free = room.total[room.kind_of(placement)]
        self._grant(entry, placement, Reason(FITS, (entry.job.gang_size, free)))

    def _take_from(self, entry: Entry, kind: str, placement: Placement, leaving: list[Entry]) -> None:
        if entry.job.seating is not None and self._staying.keeps(entry.job):
            kind = self._line.room.kind_of(entry.job.seating.allocation)
            runners = self._line.runners[kind]
            home = self._staying.at_home(entry.job, self._line.room, runners.items[runners.after(entry.key) :])
            if home is None or self._is_kept(entry, home[0]):
                return  # it goes on as a guest
            placement, leaving = home
        for one in leaving:
            self._line.evict(one, self._now)
            self.evicted[one.job.id] = (one, Reason(PREEMPTED_FOR, (entry.job.id,)))
            heappush(self._candidates, (one.key, one))
        self._grant(entry, placement, Reason(FITS_AFTER_PREEMPTING, (entry.job.gang_size, len(leaving))))
        looks_here = self._looks_from is not None and self._looks_from <= entry.key
        if self._line.room.total[kind] and not looks_here:  # those that left had more than was needed
            self._look_at_all_behind(entry.key)
            heapify(self._candidates)

    def _grant(self, entry: Entry, placement: Placement, reason: Reason) -> None:
        self.grants.append(Grant(entry.job.id, placement, reason))
        self._staying.granted(entry.job, placement)
        self._line.start(entry, placement, self._now)
        if self._reserved is not None:
            self._reserved.taken(entry.job, placement)
