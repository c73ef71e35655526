"""One decision on turns: first new jobs; then, at each server that is looked at, which jobs go on, are paused, or
resume; then those that are moved to devices that are left free."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Key, Match, Placer
from weft.policies.migrate.unpack import SeatRetention
from weft.policies.order.gandiva import GandivaOrder
from weft.policies.plan.free_devices import FreeDevices
from weft.policies.plan.preemption import (
    RunningJob,
    is_protected,
    make_way,
    placement_of,
    protected_until,
    protection_end,
)

if TYPE_CHECKING:
    from weft.policies.plan.server_planner import ServerIndex


class TimeSliceBuilder:
    """What is free by now, which jobs were paused, what each got. Devices are counted one by one: a job that resumes is
    granted before all others, so that it gets the very ones it had."""

    def __init__(
        self, view: View, order: GandivaOrder, match: Match, place: Placer, staying: SeatRetention, servers: ServerIndex
    ) -> None:
        self.looked_at: set[int] = set()
        self.granted: dict[str, Allocation] = {}
        """With the devices they will have."""
        self.is_any_unplaced = False
        self._view = view
        self._order = order
        self._match = match
        self._place = place
        self._staying = staying
        self._servers = servers
        self._room = FreeDevices(view)
        self._free = list(view.free_masks)
        self._evicted: dict[str, Reason] = {}
        self._resumed: list[Grant] = []
        self._placed: list[Grant] = []
        self._keys: dict[str, Key] = {}

    def go(self, changed: set[int]) -> None:
        self._place_newcomers()
        done = set[int]()
        for node in sorted(changed | self.looked_at):
            if node not in done:
                together = self._together(node)
                self._take_turns(together)
                done |= together
        if self.waiting and any(self._free):
            self._use_what_is_free()

    def plan(self, wake_at: float) -> Plan:
        evictions = [Eviction(job_id, reason) for job_id, reason in self._evicted.items()]
        return Plan([*self._resumed, *self._placed], evictions, wake_at)

    # ---- what has been decided

    @property
    def concerned(self) -> list[Job]:
        jobs = self._view.jobs
        return [jobs[job_id] for job_id in {**self._evicted, **self.granted}]

    @property
    def waiting(self) -> int:
        return self._view.jobs_waiting - len(self.granted) + len(self._evicted)

    def running(self) -> list[Job]:
        return [job for job in self._view.running.values() if job.id not in self._evicted] + self._started()

    def running_on(self, node: int) -> tuple[list[Job], bool]:
        """The jobs that run there from now on, and whether another waits for its turn there."""
        jobs = self._servers.jobs[node].values()
        running = [job for job in jobs if self._runs(job)]
        started = [job for job in self._started() if job.id not in self._servers.jobs[node] and self._is_on(job, node)]
        return running + started, len(running) < len(jobs)

    def protected_until_s(self, job: Job) -> float:
        """When its devices may be taken from it, if they may not be now."""
        now = self._view.now
        end_s = protected_until(job) if job.is_running else protection_end(job, now)
        return end_s if now + EPSILON_S < end_s else math.inf

    def _started(self) -> list[Job]:
        return [self._view.jobs[job_id] for job_id in self.granted]

    def _is_on(self, job: Job, node: int) -> bool:
        return any(at == node for at, _ in self.granted[job.id])

    def _runs(self, job: Job) -> bool:
        return job.id in self.granted or (job.is_running and job.id not in self._evicted)

    # ---- turns

    def _together(self, node: int) -> set[int]:
        """The servers that gangs over several of them tie to this one."""
        together, found = {node}, [node]
        while found:
            for job_id, job in self._servers.jobs[found.pop()].items():
                if job.gang_size > 1:
                    more = {at for at, _ in self._servers.home[job_id]} - together
                    together |= more
                    found += more
        return together

    def _take_turns(self, nodes: set[int]) -> None:
        self.looked_at |= nodes
        jobs = {job_id: job for node in sorted(nodes) for job_id, job in self._servers.jobs[node].items()}
        if all(map(self._runs, jobs.values())):
            return
        line = sorted(jobs.values(), key=self._key)
        for at, job in enumerate(line):
            if not self._runs(job) and job.id not in self._evicted:
                behind = [
                    one for one in line[at + 1 :] if self._is_evictable(one) and not self._keeps_its_turn(one, job)
                ]
                self._resume(job, behind) or self._change_devices(job, behind)

    def _keeps_its_turn(self, job: Job, winner: Job) -> bool:
        """A quantum that has begun ends early only for a larger gang, which may never find all its devices otherwise:
        not because accounts, or what a switch costs, are seen otherwise than when it began."""
        return winner.gang_size <= job.gang_size and self._order.is_in_quantum(job, self._view.now)

    def _resume(self, job: Job, behind: Sequence[Job]) -> bool:
        home = self._servers.home[job.id]
        lacking = {node: mask & ~self._free[node] for node, mask in home if mask & ~self._free[node]}
        leaving = []
        for one in behind if lacking else ():
            there = [(node, mask & lacking[node]) for node, mask in one.allocation if mask & lacking.get(node, 0)]
            if there:
                leaving.append(one)
                for node, mask in there:
                    lacking[node] ^= mask
        if any(lacking.values()):
            return False
        self._evict(leaving, job)
        self._grant(job, home, self._resumed, self._why(job, len(leaving)))
        return True

    def _change_devices(self, job: Job, behind: Sequence[Job]) -> bool:
        """Other devices of its server, if it has had so much less than those that hold them that it pays."""
        home = self._servers.home[job.id]
        if len(home) > 1 or not job.spec.may_migrate:
            return False
        node, leaving = home[0][0], list[Job]()
        free = self._room.free[node]
        for one in reversed(behind):
            if free >= job.gang_size:
                break
            if len(one.allocation) == 1 and one.allocation[0][0] == node:
                leaving.append(one)
                free += one.gang_size
        if free < job.gang_size or not self._order.may_move_to(job, leaving, self._view.now):
            return False
        if not leaving and not self._pays_to_move(job):
            return False
        self._evict(leaving, job)
        why = Reason(Code.MIGRATED, ("to other devices of its node, as it has had less time than those there",))
        self._give(job, ((node, job.gang_size),), why)
        return True

    # ---- newcomers

    def _place_newcomers(self) -> None:
        hopeless: set[tuple[int, tuple[str, ...]]] = set()
        present = tuple(self._room.groups)
        for job in sorted(self._servers.unplaced.values(), key=self._key):
            kinds = self._match.types(job.spec, present)
            if (job.gang_size, kinds) in hopeless:
                self.is_any_unplaced = True
            elif not (self._start_on_free(job, kinds) or self._oversubscribe(job, kinds)):
                self.is_any_unplaced = True
                hopeless.add((job.gang_size, kinds))

    def _start_on_free(self, job: Job, kinds: Sequence[str], why: Reason | None = None) -> bool:
        for kind in kinds:
            if self._room.total[kind] >= job.gang_size:
                placement = self._place.choose(job.spec, self._room.groups[kind], self._room.free)
                if placement is not None:
                    fits = Reason(Code.FITS, (job.gang_size, self._room.total[kind]))
                    self._give(job, placement, why or fits)
                    return True
        return False

    def _oversubscribe(self, job: Job, kinds: Sequence[str]) -> bool:
        """Take turns with the jobs of a server: of those where its turn comes at once, the least loaded one."""
        groups = self._room.groups
        servers = [(kind, node) for kind in kinds if groups[kind].fewest(job.gang_size) == 1 for node in groups[kind]]
        for _, node in sorted(servers, key=lambda one: (self._crowding(job, *one), one[1])):
            if self._view.nodes[node].device_count >= job.gang_size and self._take_from_server(job, node):
                return True
        return any(self._take_from_several(job, kind) for kind in kinds if groups[kind].fewest(job.gang_size) > 1)

    def _crowding(self, job: Job, kind: str, node: int) -> float:
        """How many jobs' worth of devices each device would serve, the more the slower it is for this job."""
        demand = self._servers.demand[node] + sum(
            mask.bit_count() for job_id in self.granted if job_id not in self._servers.home
            for at, mask in self.granted[job_id] if at == node
        )  # fmt: skip
        return (demand + job.gang_size) / self._view.nodes[node].device_count / max(job.spec.rate_hz(kind), 1e-9)

    def _take_from_server(self, job: Job, node: int) -> bool:
        key, free, leaving = self._key(job), self._room.free[node], list[Job]()
        for one in sorted(self._servers.jobs[node].values(), key=self._key, reverse=True):
            if free >= job.gang_size or self._key(one) <= key:
                break
            if self._is_evictable(one):
                leaving.append(one)
                free += sum(mask.bit_count() for at, mask in one.allocation if at == node)
        if free < job.gang_size:
            return False
        self._evict(leaving, job)
        self._give(job, ((node, job.gang_size),), self._why(job, len(leaving)))
        return True

    def _take_from_several(self, job: Job, kind: str) -> bool:
        key, group = self._key(job), self._room.groups[kind]
        running = sorted((one for one in self._view.running.values() if self._is_evictable(one)), key=self._key)
        behind = [RunningJob(one, placement_of(one)) for one in running if self._key(one) > key]
        behind = [one for one in behind if self._room.kind_of(one.placement) == kind]
        if sum(one.job.gang_size for one in behind) + self._room.total[kind] < job.gang_size or not behind:
            return False
        way = make_way(self._place, job.spec, group, self._room.free, behind)
        if way is None:
            return False
        self._evict([one.job for one in way[1]], job)
        self._give(job, way[0], self._why(job, len(way[1])))
        return True

    # ---- devices that are left free

    def _use_what_is_free(self) -> None:
        """First jobs whose own devices have become free, then jobs that are moved to free ones, then guests."""
        waiting = [job for jobs in self._servers.jobs for job in jobs.values() if self._waits(job)]
        waiting = sorted({job.id: job for job in waiting}.values(), key=self._key)
        for job in waiting:
            self._resume(job, ())
        present, hopeless = tuple(self._room.groups), set[tuple[int, tuple[str, ...]]]()
        for job in waiting:
            kinds = self._match.types(job.spec, present)
            if self._waits(job) and (job.gang_size, kinds) not in hopeless and self._pays_to_move(job):
                why = Reason(Code.MIGRATED, ("to devices that are free, as its own are shared",))
                if not self._start_on_free(job, kinds, why):
                    hopeless.add((job.gang_size, kinds))
        for guest in sorted(self._view.seated.values(), key=self._key):
            self._give_guest(guest, self._match.types(guest.spec, present))

    def _waits(self, job: Job) -> bool:
        return not job.is_running and job.id not in self.granted

    def _pays_to_move(self, job: Job) -> bool:
        """Whether it gains more than a move costs, if it runs as long again as it has run."""
        if not job.spec.may_migrate:
            return False
        home, demand = self._servers.home[job.id], self._servers.demand
        crowding = max(demand[node] / self._view.nodes[node].device_count for node, _ in home)
        gain = max(crowding - 1.0, 1.0 / 8.0)  # the devices of a waiting job are shared, whatever the server's average
        return job.run_s(self._view.now) >= self._order.cost.seconds * (1.0 + gain) / gain

    def _give_guest(self, guest: Job, kinds: Sequence[str]) -> None:
        """Its own devices, unless it is better off where it sits."""
        staying, room = self._staying, self._room
        placement = staying.free_home(guest, room)
        if placement is None:
            found = (self._place.choose(guest.spec, room.groups[kind], room.free) for kind in kinds)
            placement = next((one for one in found if one is not None), None)
        if placement is None or staying.declines(guest, placement):
            placement = staying.free_home(guest, room) if placement is not None else None
        if placement is not None:
            self._give(guest, placement, Reason(Code.FITS, (guest.gang_size, room.total[room.kind_of(placement)])))

    # ---- one by one

    def _key(self, job: Job) -> Key:
        key = self._keys.get(job.id)
        if key is None:
            key = self._keys[job.id] = self._order.key(job, self._view.now)
        return key

    def _is_evictable(self, job: Job) -> bool:
        is_settled = job.id in self._evicted or job.id in self.granted
        return job.is_running and not is_settled and not is_protected(job, self._view.now)

    def _why(self, job: Job, leaving: int) -> Reason:
        if leaving:
            return Reason(Code.FITS_AFTER_PREEMPTING, (job.gang_size, leaving))
        return Reason(Code.FITS, (job.gang_size, sum(self._room.total.values())))

    def _evict(self, jobs: Sequence[Job], winner: Job) -> None:
        for job in jobs:
            self._evicted[job.id] = Reason(Code.PREEMPTED_FOR, (winner.id,))
            self._room.give(placement_of(job))
            for node, mask in job.allocation:
                self._free[node] |= mask
                self.looked_at.add(node)

    def _give(self, job: Job, placement: Placement, why: Reason) -> None:
        """On devices that it did not have: the lowest free ones, as the ledger picks them."""
        allocation = tuple((node, _lowest(self._free[node], count)) for node, count in placement)
        if job.seating is not None and all(self._free[node] & mask == mask for node, mask in job.seating.allocation):
            seat = job.seating.allocation
            allocation = seat if placement == tuple((node, mask.bit_count()) for node, mask in seat) else allocation
        self._grant(job, allocation, self._placed, why)
        peers = self._servers.jobs[allocation[0][0]].values()
        if job.seating is None and (not job.last_allocation or job.last_allocation[0][0] != allocation[0][0]):
            self._order.accounts.join(self._view, job, peers)

    def _grant(self, job: Job, allocation: Allocation, to: list[Grant], why: Reason) -> None:
        placement = tuple((node, mask.bit_count()) for node, mask in allocation)
        self.granted[job.id] = allocation
        self._room.take(placement)
        for node, mask in allocation:
            self._free[node] &= ~mask
            self.looked_at.add(node)
        to.append(Grant(job.id, placement, why))
        self._staying.granted(job, placement)


def _lowest(free: int, count: int) -> int:
    rest = free
    for _ in range(count):
        rest &= rest - 1
    return free ^ rest
