"""The planner for an order by turns within each server: a job stays on the devices where it was first placed.

A job is placed on a server when it first runs: where devices are free, or else where the fewest jobs share them. From
then on it takes turns with the jobs of that server only, and resumes on the very devices on which it was paused. It
gets others only by a migration, which is reported as one and must pay for itself.

Between decisions the planner remembers which jobs belong to which server, and from when on a quantum may end there. A
decision looks only at servers where something has changed or is due; with `looks_at_all`, at all of them.

While jobs are live that are bound to devices or CPU cores, or have a priority, the plain planner decides: then turns
are taken across servers, and a job goes on where it was only if it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import ClassVar

from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import AllTenants, Match, Placer
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.order.keyed import later
from weft.policies.plan.full_scan import FullScanPlanner
from weft.policies.plan.preemption import protection_ends_at
from weft.policies.plan.time_slices import TimeSliceBuilder


class ServerPlanner:
    """Rotation, match, place for jobs that take turns."""

    reservations = None
    may_place_anew: ClassVar[bool] = False

    def __init__(self, order: GandivaOrder, match: Match, place: Placer, looks_at_all: bool = False) -> None:
        self._scan = FullScanPlanner(AllTenants(), order, match, place)
        self.staying = self._scan.staying
        self._order = order
        self._match = match
        self._place = place
        self.looks_at_all = looks_at_all
        self._servers: ServerIndex | None = None
        self._quanta_s = order.quanta_s

    def decide(self, view: View) -> Plan:
        if view.has_exceptions:  # jobs that counts of devices and keys do not describe
            self.forget()
            return self._scan.decide(view)
        order, servers = self._order, self._servers
        has_learnt = order.learn(view)
        quanta_s, self._quanta_s = self._quanta_s, order.quanta_s
        has_learnt |= quanta_s != self._quanta_s
        if servers is None or servers.version != view.version:
            servers = self._servers = ServerIndex(view, servers)
            for job, peers in servers.moved:
                order.accounts.join(view, job, peers)
            changed = set(range(len(view.nodes)))
        else:
            changed = servers.catch_up(view)
            if has_learnt or self.looks_at_all:
                changed = set(range(len(view.nodes)))
            changed |= servers.due(view.now)
        slicing = TimeSliceBuilder(view, order, self._match, self._place, self.staying, servers)
        slicing.go(changed)
        servers.expect(view, order, slicing)
        return slicing.plan(self._wake_at(view, servers, slicing))

    def positions(self, view: View) -> None:
        """Nothing is kept."""

    def forget(self) -> None:
        """What was planned is not what was done: look at every server again."""
        if self._servers is not None:
            self._servers.version = -1

    def why(self, view: View, job: Job) -> Reason | None:
        """Of a job that waits for its turn; None if it belongs to no server."""
        home = home_of(view, job)
        if not home or job.seating is not None:
            return None
        on = [mask for node, mask in home if node == home[0][0]]
        others = sum(1 for one in view.jobs.values() if one is not job and _overlaps(home_of(view, one), home, on[0]))
        return Reason(Code.TAKES_TURNS, (view.nodes[home[0][0]].name, others))

    def _wake_at(self, view: View, servers: ServerIndex, slicing: TimeSliceBuilder) -> float:
        now, order = view.now, self._order
        wake_at = min(servers.wakes.values(), default=math.inf)
        running = slicing.running() if slicing.waiting else []
        if slicing.is_any_unplaced:
            ends = (later(order.changes_at(job, now, is_running=True), now) for job in running)
            wake_at = min(wake_at, min(ends, default=math.inf))
        if slicing.waiting:
            ids = [job.id for job in running]
            wake_at = min(wake_at, protection_ends_at(view, ids, slicing.granted))
        return min(wake_at, order.look_again_at(now, slicing.waiting))


class ServerIndex:
    """Which jobs belong where, and when turns end there."""

    def __init__(self, view: View, before: ServerIndex | None = None) -> None:
        self.version = view.version
        self.jobs: list[dict[str, Job]] = [{} for _ in view.nodes]
        """By node, the jobs that run there, or wait for their turn there, in the order in which they came to be
        known."""
        self.home: dict[str, Allocation] = {}
        self.demand = [0] * len(view.nodes)
        """By node, how many devices its jobs want."""
        self.unplaced: dict[str, Job] = {}
        self.wakes: dict[int, float] = {}
        """By node, when a turn ends for which a job waits."""
        self._due: dict[int, float] = {}
        """By node, from when on it may end."""
        self._planned: list[Job] = []
        """The jobs that the last plan was about: changes do not report those."""
        for job in view.jobs.values():
            self._enter(view, job)
        known = before.home if before is not None else {}
        moved = [job for job in view.jobs.values() if _nodes(known.get(job.id)) not in ((), _nodes(self._at(job)))]
        self.moved = [(job, self.peers(job)) for job in moved if self._at(job)]

    def peers(self, job: Job) -> list[Job]:
        at = self._at(job)
        return list(self.jobs[at[0][0]].values()) if at else []

    def catch_up(self, view: View) -> set[int]:
        """Take in what has happened. Returns where."""
        changed: set[int] = set()
        for job in [*self._planned, *(job for _, job in view.changes)]:
            changed.update(node for node, _ in self.home.get(job.id, ()))
            self._leave(job)
            self._enter(view, job)
            changed.update(node for node, _ in self.home.get(job.id, ()))
        self._planned = []
        return changed

    def due(self, now: float) -> set[int]:
        return {node for node, at_s in self._due.items() if at_s <= now + EPSILON_S}

    def expect(self, view: View, order: GandivaOrder, slicing: TimeSliceBuilder) -> None:
        """When to look at the servers again that have been looked at."""
        now = view.now
        self._planned = slicing.concerned
        for node in slicing.looked_at:
            self.wakes.pop(node, None)
            self._due.pop(node, None)
            running, is_wanted = slicing.running_on(node)
            if is_wanted and running:
                ends_s = min(slicing.protected_until_s(job) for job in running)
                at_s = min(order.changes_at(job, now, is_running=True) for job in running)
                self.wakes[node] = later(min(at_s, ends_s), now)
                self._due[node] = later(min(ends_s, min(order.may_change_at(job, now) for job in running)), now)

    def _at(self, job: Job) -> Allocation:
        return self.home.get(job.id, ())

    def _enter(self, view: View, job: Job) -> None:
        if view.jobs.get(job.id) is not job or not (job.is_running or job.is_waiting) or job.seating is not None:
            return
        home = home_of(view, job)
        if not home:
            self.unplaced[job.id] = job
            return
        self.home[job.id] = home
        for node, mask in home:
            self.jobs[node][job.id] = job
            self.demand[node] += mask.bit_count()

    def _leave(self, job: Job) -> None:
        self.unplaced.pop(job.id, None)
        for node, mask in self.home.pop(job.id, ()):
            if self.jobs[node].pop(job.id, None) is not None:
                self.demand[node] -= mask.bit_count()


def home_of(view: View, job: Job) -> Allocation:
    """The devices that it has or had last, if they are there and not blocked; nothing if it must be placed."""
    if job.allocation:
        return job.allocation
    home = job.last_allocation
    for node, mask in home:
        if not view.is_present[node] or view.blocked_masks[node] & mask:
            return ()
        if not job.spec.allows(view.nodes[node].device_type):
            return ()
    return home


def _nodes(home: Iterable[tuple[int, int]] | None) -> tuple[int, ...]:
    return tuple(node for node, _ in home or ())


def _overlaps(one: Allocation, other: Allocation, mask: int) -> bool:
    return bool(other) and any(node == other[0][0] and here & mask for node, here in one)
