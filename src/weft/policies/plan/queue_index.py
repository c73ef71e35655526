"""The line of live jobs, kept in order between decisions: waiting jobs by shape, running jobs by device type."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from operator import attrgetter

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Key, Match, Placer
from weft.policies.order.keyed import KeyedOrder, later
from weft.policies.plan.free_devices import FreeDevices
from weft.policies.plan.preemption import is_protected, placement_of, protected_until
from weft.policies.plan.sorted_jobs import SortedJobs, WeightedJobs

FRONT: Key = ()
"""Before every key."""

Shape = tuple[object, ...]


class QueueEntry:
    """One job's place in the line."""

    __slots__ = (
        "change_at",
        "is_evicted",
        "is_moved",
        "is_ranked",
        "is_running",
        "job",
        "key",
        "kind",
        "kinds",
        "placement",
        "protected_until",
        "shape",
    )

    def __init__(self, job: Job, key: Key, kinds: tuple[str, ...], shape: Shape) -> None:
        self.job = job
        self.key = key
        self.kinds = kinds
        self.shape = shape
        self.placement: Placement = ()
        """Where it runs, or ran until it was evicted."""
        self.kind = ""
        """The device type of that."""
        self.is_running = False
        self.is_ranked = False
        """Whether it runs and may be evicted."""
        self.is_evicted = False
        """Whether this very decision has evicted it so far."""
        self.is_moved = False
        """Whether the last plan evicted it and started it elsewhere: its lease is another one since."""
        self.change_at = math.inf
        self.protected_until = -math.inf
        """Until when it is not evicted, as far as is known."""

    def __lt__(self, other: QueueEntry) -> bool:
        return False  # heaps compare keys; equal keys are the same entry


class QueueIndex:
    """Everything the fast planner remembers. Methods that make devices available say from which key on."""

    def __init__(self, view: View, order: KeyedOrder, match: Match, place: Placer) -> None:
        self.version = view.version
        self.room = FreeDevices(view)
        self.entries: dict[str, QueueEntry] = {}
        self.waiting: dict[Shape, SortedJobs[QueueEntry]] = {}
        self.runners: dict[str, WeightedJobs[QueueEntry]] = {kind: WeightedJobs() for kind in self.room.groups}
        self.jobs_waiting = 0
        self._order = order
        self._match = match
        self._place = place
        self._drifting: dict[str, QueueEntry] = {}
        self.unsettled: list[QueueEntry] = []
        self.changing: list[tuple[float, Key, QueueEntry]] = []
        self.protected: list[tuple[float, Key, QueueEntry]] = []
        self.starting: dict[str, QueueEntry] = {}
        """Protected jobs that start up: they are evicted for guaranteed jobs alone."""
        self._kinds_of: dict[Shape, tuple[str, ...]] = {}
        self._could_hold: dict[Shape, bool] = {}
        for job in view.jobs.values():
            if job.is_waiting:
                self.queue(job, view.now)
            elif job.is_running:
                self._adopt(job, view.now)

    # ---- coming and going

    def queue(self, job: Job, now: float) -> QueueEntry:
        """A job that waits and was not in the line."""
        self._order.touch(job, now)
        entry = self._enter(job, now)
        self.wait(entry)
        self.expect_change(entry, now)
        return entry

    def leave(self, job: Job) -> Key | None:
        """A job that is over or held. One that is over after being held has left before."""
        entry = self.entries.pop(job.id, None)
        if entry is None:
            return None
        entry.change_at = math.inf  # what heaps still know of it is stale
        if not entry.is_running:
            self.unwait(entry)
            return entry.key if self._order.may_block or self._order.may_reserve else None
        entry.is_running = False
        was_protected = job.spec.min_run_s > 0.0 or not entry.is_ranked
        self.unrank(entry)
        self._unprotect(entry)
        self.room.give(entry.placement)
        return FRONT if was_protected else entry.key  # a protected job was out of reach for all

    def _adopt(self, job: Job, now: float) -> None:
        entry = self._enter(job, now)
        entry.placement = placement_of(job)
        entry.kind = self.room.kind_of(entry.placement)
        self.run(entry, now)

    def _enter(self, job: Job, now: float) -> QueueEntry:
        shape, kinds = self._described(job)
        key = self._order.key(job, now)
        if not key or key[-1] is not job.tie:
            raise InputError(
                f"the key {key} of {type(self._order).__name__} does not end with the job's tie",
                "end the tuple with job.tie: that is what makes keys of different jobs different",
            )
        entry = self.entries[job.id] = QueueEntry(job, key, kinds, shape)
        return entry

    def _described(self, job: Job) -> tuple[Shape, tuple[str, ...]]:
        """Of jobs of one shape, if one finds no place then no later one does; and the types it may start on now."""
        spec, order = job.spec, self._order
        shape: Shape = (spec.gang_size, spec.device_types, self._place.shape(spec))
        kinds = None if spec.step_rate_hz else self._kinds_of.get(shape)
        if kinds is None:
            kinds = self._match.types(spec, tuple(self.room.groups))
            if not spec.step_rate_hz:
                self._kinds_of[shape] = kinds
        if not order.may_reserve:
            return shape, kinds
        if order.is_barred(job):
            return (*shape, "barred"), ()
        return (*shape, order.reserves(job), order.heeds_reservations(job)), kinds

    def could_hold(self, entry: QueueEntry) -> bool:
        """Whether it fits if no other job holds anything: worked out once a shape, as long as the devices stay."""
        known = self._could_hold.get(entry.shape)
        if known is None:
            known = self.room.could_hold(self._place, entry.job.spec, entry.kinds)
            self._could_hold[entry.shape] = known
        return known

    # ---- waiting and running

    def wait(self, entry: QueueEntry) -> None:
        ranked = self.waiting.get(entry.shape)
        if ranked is None:
            ranked = self.waiting[entry.shape] = SortedJobs()
        ranked.insert(entry.key, entry)
        self.jobs_waiting += 1

    def unwait(self, entry: QueueEntry) -> None:
        ranked = self.waiting[entry.shape]
        ranked.remove(entry.key)
        if not ranked.keys:
            del self.waiting[entry.shape]
        self.jobs_waiting -= 1

    def rank(self, entry: QueueEntry) -> None:
        entry.is_ranked = True
        if self._order.drifts:
            self._drifting[entry.job.id] = entry  # sorted when it is needed
        else:
            self.runners[entry.kind].insert(entry.key, entry, entry.job.gang_size)

    def unrank(self, entry: QueueEntry) -> None:
        if entry.is_ranked:
            entry.is_ranked = False
            if self._order.drifts:
                del self._drifting[entry.job.id]
            else:
                self.runners[entry.kind].remove(entry.key)

    def evict(self, entry: QueueEntry, now: float) -> None:
        """Called within a decision, when keys that drift have just been sorted."""
        if self._order.drifts and entry.is_ranked:
            self.runners[entry.kind].remove(entry.key)
        self.unrank(entry)
        self._unprotect(entry)
        self.room.give(entry.placement)
        entry.is_running = False
        entry.is_evicted = True
        self.wait(entry)
        if self._order.is_moved_by_eviction:
            self.unsettled.append(entry)
        self.expect_change(entry, now)

    def start(self, entry: QueueEntry, placement: Placement, now: float) -> None:
        """It leaves the queue and takes these devices."""
        self.unwait(entry)
        self.room.take(placement)
        entry.placement = placement
        entry.kind = self.room.kind_of(placement)
        entry.is_moved = entry.is_evicted
        min_run_s = entry.job.spec.min_run_s
        if min_run_s > 0.0 and self._order.preempts:
            self._protect(entry, now + min_run_s)
        self.run(entry, now)

    def return_home(self, entry: QueueEntry, now: float) -> None:
        """Evicted within this decision, it keeps its devices after all."""
        self.unwait(entry)
        self.room.take(entry.placement)
        entry.is_evicted = False
        self.run(entry, now)

    def run(self, entry: QueueEntry, now: float) -> None:
        """It runs from now on; what that does to its key shows once the plan is committed."""
        entry.is_running = True
        self.unsettled.append(entry)
        self.expect_change(entry, now)

    def settle(self, now: float, newcomers: list[QueueEntry]) -> Key | None:
        """Give those that the last plan moved their new places; one that waits is a newcomer there."""
        freed: Key | None = None
        order = self._order
        unsettled, self.unsettled = self.unsettled, []
        for entry in unsettled:
            if not entry.is_running:
                freed = earlier(freed, self.rank_again(entry, now, newcomers))
            elif entry.job.is_running and order.preempts and not entry.is_ranked:
                if entry.is_moved:
                    entry.is_moved = False
                    self.expect_change(entry, now)  # what was expected was of the lease before
                if is_protected(entry.job, now):
                    self._keep_out_of_reach(entry, now)
                    self.expect_change(entry, now)  # what was expected was without its start-up
                    continue
                if entry.job.spec.step_rate_hz:
                    self.expect_change(entry, now)  # how fast it runs is known only now that it is placed
                before, entry.key = entry.key, order.key(entry.job, now)
                self.rank(entry)
                if entry.key > before:
                    freed = earlier(freed, before)
        return freed

    # ---- keys

    def sort_drifting(self, now: float) -> None:
        """For keys that drift: sort those that may be evicted by their keys of this instant."""
        order = self._order
        runners: dict[str, WeightedJobs[QueueEntry]] = {kind: WeightedJobs() for kind in self.room.groups}
        for entry in self._drifting.values():
            entry.key = order.key(entry.job, now)
        for entry in sorted(self._drifting.values(), key=attrgetter("key")):
            runners[entry.kind].append(entry.key, entry, entry.job.gang_size)
        self.runners = runners

    def expect_change(self, entry: QueueEntry, now: float) -> None:
        change_at = self._order.changes_at(entry.job, now, entry.is_running)
        if change_at != math.inf:
            change_at = later(change_at, now)
            heappush(self.changing, (change_at, entry.job.tie, entry))
        entry.change_at = change_at

    def apply_changes(self, now: float, newcomers: list[QueueEntry]) -> Key | None:
        """Move those whose keys have changed."""
        changing, freed = self.changing, None
        due: list[QueueEntry] = []
        while changing and changing[0][0] <= now + EPSILON_S:  # keys may change that much too early
            change_at, _, entry = heappop(changing)
            if change_at == entry.change_at:
                due.append(entry)
        for entry in due:
            self._order.touch(entry.job, now)
            freed = earlier(freed, self.rank_again(entry, now, newcomers))
            self.expect_change(entry, now)
        return freed

    def rank_again(self, entry: QueueEntry, now: float, newcomers: list[QueueEntry]) -> Key | None:
        """Give it the place that its key of this instant asks for; one that waits is a newcomer there."""
        before = entry.key
        if not entry.is_running:
            if self.entries.get(entry.job.id) is entry:
                self.unwait(entry)
                entry.key = self._order.key(entry.job, now)
                if self._order.may_reserve:
                    entry.shape, entry.kinds = self._described(entry.job)
                self.wait(entry)
                newcomers.append(entry)
                return before if self._order.may_block or self._order.may_reserve else None
        elif entry.is_ranked:
            self.unrank(entry)
            entry.key = self._order.key(entry.job, now)
            self.rank(entry)
            return before
        return None

    # ---- protection

    def _protect(self, entry: QueueEntry, until_s: float) -> None:
        if entry.protected_until != until_s:
            entry.protected_until = until_s
            heappush(self.protected, (until_s, entry.job.tie, entry))

    def _unprotect(self, entry: QueueEntry) -> None:
        entry.protected_until = -math.inf  # what the heap still knows of it is stale
        self.starting.pop(entry.job.id, None)

    def _keep_out_of_reach(self, entry: QueueEntry, now: float) -> None:
        """Until `end_protection`; of one that starts up, until its first step if that comes before."""
        self.unrank(entry)
        self._protect(entry, protected_until(entry.job))
        if now < entry.job.startup_kept_until_s:
            self.starting[entry.job.id] = entry

    def review_startup(self, entry: QueueEntry, now: float) -> Key | None:
        """A running job has begun to start up, or has made its first step."""
        if is_protected(entry.job, now):
            self._keep_out_of_reach(entry, now)
            return None
        return None if entry.is_ranked else self._bring_within_reach(entry, now)

    def end_protection(self, now: float) -> Key | None:
        freed: Key | None = None
        while self.protected and self.protected[0][0] <= now + EPSILON_S:
            until_s, _, entry = heappop(self.protected)
            if until_s == entry.protected_until and entry.is_running and not entry.is_ranked:
                freed = self._bring_within_reach(entry, now)
        return freed

    def _bring_within_reach(self, entry: QueueEntry, now: float) -> Key:
        self._unprotect(entry)
        entry.key = self._order.key(entry.job, now)
        self.rank(entry)
        return FRONT  # until now it was out of reach for all, whatever its place in the line

    def wake_at(self, now: float) -> float:
        changing, protected = self.changing, self.protected
        while changing and changing[0][0] != changing[0][2].change_at:
            heappop(changing)
        while protected and protected[0][0] != protected[0][2].protected_until:
            heappop(protected)
        wake_at = self._order.look_again_at(now, self.jobs_waiting)
        if changing:
            wake_at = min(wake_at, changing[0][0])
        if protected:
            wake_at = min(wake_at, protected[0][0])
        return wake_at


def earlier(one: Key | None, other: Key | None) -> Key | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
