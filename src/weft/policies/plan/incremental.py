"""The fast planner: keeps the line between decisions and looks only where something has changed.

What it relies on: going down the line, the devices that a job could have (the free ones and those of running jobs
behind it) only become fewer. So

- a change at one place in the line cannot matter to the jobs before it;
- once a job of some shape finds no place, no later job of that shape does;
- a job that waited before, with no more devices to choose from now, still waits.

Where devices are kept for a gang, that holds for jobs that stand alike to what is kept, and so does their shape.

It also relies on keys that end with the job's tie, on jobs that block coming before all that do not, on a match
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
from weft.core.plan import Placement, Plan
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import AllTenants, Key, Match, Placer
from weft.policies.migrate.unpack import SeatRetention
from weft.policies.order.keyed import KeyedOrder
from weft.policies.plan.builder import PlanBuilder
from weft.policies.plan.full_scan import FullScanPlanner
from weft.policies.plan.preemption import only_starts_up
from weft.policies.plan.queue_index import FRONT, QueueEntry, QueueIndex, Shape, earlier
from weft.policies.plan.queue_position import QueuePositions, positions
from weft.policies.plan.reservation import Reservations

PROGRESSED, STARTUP = Change.PROGRESSED, Change.STARTUP


class IncrementalPlanner:
    """Order, match, place for an order that has keys; all tenants are admitted."""

    may_place_anew: ClassVar[bool] = True

    def __init__(self, order: KeyedOrder, match: Match, place: Placer) -> None:
        self._order = order
        self._match = match
        self._place = place
        self._line: QueueIndex | None = None
        self._scan = FullScanPlanner(AllTenants(), order, match, place)
        self.reservations = self._scan.reservations
        self.staying = self._scan.staying

    def decide(self, view: View) -> Plan:
        freed: Key | None
        if view.has_exceptions:  # jobs that neither shapes nor keys describe
            self._line = None
            return self._scan.decide(view)
        if self._order.learn(view) or self._line is None or self._line.version != view.version:
            self._line = QueueIndex(view, self._order, self._match, self._place)
            self._line.settle(view.now, [])
            freed, newcomers = FRONT, list[QueueEntry]()
        else:
            freed, newcomers = self._catch_up(self._line, view)
        if self._line.jobs_waiting and (freed is not None or newcomers):
            reserved = self.reservations if self._order.may_reserve else None
            if reserved is not None:
                reserved.begin(view.version)
            builder = IncrementalBuilder(self._line, self._order, self._place, view.now, self.staying, reserved)
            builder.go(freed, newcomers)
            return builder.plan(self._line.wake_at(view.now))
        return Plan((), (), self._line.wake_at(view.now))

    def positions(self, view: View) -> QueuePositions | None:
        """Of the jobs that wait, as of the view; None if that is not known."""
        return positions(self._line, self._order, view)

    def forget(self) -> None:
        """What was planned is not what was done: begin anew."""
        self._line = None

    def why(self, view: View, job: Job) -> None:
        """Whatever there is to say, the stages say."""

    def _catch_up(self, line: QueueIndex, view: View) -> tuple[Key | None, list[QueueEntry]]:
        """Take in what has happened. Returns the key from which on devices became available, and the new entries."""
        now = view.now
        newcomers: list[QueueEntry] = []
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

    def _from_where(self, freed: Key | None, newcomers: list[QueueEntry]) -> Key | None:
        """From where on to look, seeing that devices became available there."""
        order = self._order
        if order.drifts:
            return FRONT  # any job may have passed any other
        looks_ahead = order.may_block or order.may_reserve
        if looks_ahead and newcomers:
            return FRONT  # a new job may be behind one that blocks, or for which devices are kept
        if freed is not None and (looks_ahead or not order.preempts):
            return FRONT  # what became free is free for all
        return freed


class IncrementalBuilder(PlanBuilder[QueueEntry]):
    """One decision: down the line, from candidate to candidate."""

    __slots__ = ("_candidates", "_is_sorted", "_line", "_looks_from", "_now", "_reach")

    _order: KeyedOrder

    def __init__(
        self,
        line: QueueIndex,
        order: KeyedOrder,
        place: Placer,
        now: float,
        staying: SeatRetention,
        reservations: Reservations | None = None,
    ) -> None:
        super().__init__(line.room, order, place, staying, reservations)
        self._line = line
        self._now = now
        self._candidates: list[tuple[Key, QueueEntry]] = []
        self._reach = math.inf
        """No later candidate could have more devices of one type than this, free or of jobs behind it."""
        self._is_sorted = not order.drifts
        """Whether the jobs that may be evicted are in order."""
        self._looks_from: Key | None = None
        """Behind this place the first of every shape is a candidate; before it only newcomers are."""

    def go(self, freed: Key | None, newcomers: list[QueueEntry]) -> None:
        candidates, order, total = self._candidates, self._order, self.room.total
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
                return  # nothing is free, and no running job is behind this place in the line
            if entry.job.gang_size <= self._reach and self.start(entry.job, entry.kinds):
                if self._looks_from is not None:
                    self._look_at_next(entry.shape, key)
            else:
                hopeless.add(entry.shape)
                self.reserve(entry.job, entry.kinds)
                if order.may_block and order.blocks(entry.job, self._now) and self._line.could_hold(entry):
                    return

    def plan(self, wake_at: float) -> Plan:
        for entry, _ in self._evicted.values():
            entry.is_evicted = False  # for the next decision it is one that waits
        return super().plan(wake_at)

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

    # ---- running jobs behind a candidate

    def reserve(self, job: Job, kinds: Sequence[str]) -> None:
        if self._reservations is not None:
            self._sort()
            super().reserve(job, kinds)

    def _start_evicting(self, job: Job, kinds: Sequence[str]) -> bool:
        self._sort()
        if super()._start_evicting(job, kinds):
            return True
        line, key = self._line, self._line.entries[job.id].key
        if len(kinds) == len(line.runners) and not line.starting:
            total, runners = self.room.total, line.runners
            self._reach = max(
                (total[kind] + runners[kind].weight_from(runners[kind].after(key)) for kind in kinds), default=0
            )
        return False

    def _sort(self) -> None:
        if not self._is_sorted:
            self._line.sort_drifting(self._now)
            self._is_sorted = True

    @property
    def _has_startups(self) -> bool:
        return bool(self._line.starting)

    def _behind(self, job: Job, kind: str) -> list[QueueEntry]:
        runners = self._line.runners[kind]
        return runners.items[runners.after(self._line.entries[job.id].key) :]

    def _enough_behind(self, job: Job, kind: str) -> list[QueueEntry]:
        runners = self._line.runners[kind]
        at = runners.after(self._line.entries[job.id].key)
        return runners.items[at:] if runners.covers_from(at, job.gang_size - self.room.total[kind]) else []

    def _ahead(self, job: Job, kind: str) -> list[QueueEntry]:
        behind = {one.job.id for one in self._behind(job, kind)}
        running = (one for one in self._line.entries.values() if one.is_running and one.kind == kind)
        return [one for one in running if one.job.id not in behind]

    def _starting_behind(self, job: Job) -> list[QueueEntry]:
        key = self._line.entries[job.id].key
        starting_up = [one for one in self._line.starting.values() if only_starts_up(one.job, self._now)]
        keys = {one.job.id: self._order.key(one.job, self._now) for one in starting_up}
        return sorted((one for one in starting_up if keys[one.job.id] > key), key=lambda one: keys[one.job.id])

    # ---- what becomes of the line

    def _granted(self, job: Job, placement: Placement) -> None:
        self._line.start(self._line.entries[job.id], placement, self._now)

    def _leave(self, one: QueueEntry) -> None:
        self._line.evict(one, self._now)
        heappush(self._candidates, (one.key, one))

    def _stay(self, one: QueueEntry) -> None:
        self._line.return_home(one, self._now)

    def _has_cleared(self, job: Job, placement: Placement) -> None:
        """Where those that left had more devices than were needed, others may have the rest."""
        key = self._line.entries[job.id].key
        looks_here = self._looks_from is not None and self._looks_from <= key
        if self.room.total[self.room.kind_of(placement)] and not looks_here:
            self._look_at_all_behind(key)
            heapify(self._candidates)
