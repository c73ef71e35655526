"""Blocks cleared by moves: small jobs leave nodes for fragments elsewhere, so that a gang has these nodes whole.

No job is preempted for a gang that lacks a block but no devices, if those that are moved hold no more devices than
those that would be preempted: both lose what it costs to start again, but a job that is moved does so at once, and a
large gang that is preempted waits until as large a block is free again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.core.job import Job
from weft.core.plan import Eviction, Grant, Plan
from weft.core.reasons import Code, Reason
from weft.core.view import View
from weft.policies.base import Placer
from weft.policies.placement import best_fit
from weft.policies.plan.free_devices import FreeDevices, NodeGroup
from weft.policies.plan.preemption import placement_of

ToFragments = list[tuple[Job, int]]
"""Jobs, and the node that each goes to."""


@dataclass(frozen=True, slots=True)
class Defragmenter:
    view: View
    place_for: Callable[[Job], Placer]
    pays: Callable[[Job, float], bool]
    """Whether it pays by now to move a job, for a gain relative to its own devices."""
    may_move: Callable[[Job, Job], bool]
    """Whether a job may be moved for a gang."""

    def with_moves_instead(self, plan: Plan) -> Plan:
        """With moves in place of preemptions; the same plan if there are none that do."""
        for grant in plan.grants if plan.evictions else ():
            preempted = self._preempted_for(grant, plan)
            if preempted:
                plan = self._moving_instead(preempted, grant, plan) or plan
        return plan

    def _preempted_for(self, grant: Grant, plan: Plan) -> list[Job]:
        """None if one of them starts elsewhere at once, or if it is for a guest, for which the place matters."""
        reason = Reason(Code.PREEMPTED_FOR, (grant.job_id,))
        preempted = [one.job_id for one in plan.evictions if one.reason == reason]
        if any(self.view.jobs[each.job_id].spec.is_bound for each in plan.grants):
            return []  # its place depends on which jobs leave
        if self.view.jobs[grant.job_id].seating or any(one.job_id in preempted for one in plan.grants):
            return []
        return [self.view.jobs[job_id] for job_id in preempted]

    def _moving_instead(self, preempted: Sequence[Job], grant: Grant, plan: Plan) -> Plan | None:
        stays = {job.id for job in preempted}
        leaving = [one for one in plan.evictions if one.job_id not in stays]
        room = self._room(leaving, [one for one in plan.grants if one is not grant])
        gang, group = self.view.jobs[grant.job_id], room.groups[room.kind_of(grant.placement)]
        if min(room.free) < 0 or sum(room.free[node] for node in group) < gang.gang_size:
            return None  # devices are lacking, to the gang itself or to others that are granted some
        devices_kept = sum(job.gang_size for job in preempted)
        concerned = {one.job_id for one in plan.evictions} | {one.job_id for one in plan.grants}
        moves = _clearing(gang.gang_size, group, self._sizes, room.free, self._movable(gang, devices_kept, concerned))
        if sum(job.gang_size for job, _ in moves) > devices_kept:
            return None
        for job, node in moves:
            room.give(placement_of(job))
            room.take(((node, job.gang_size),))
        placement = self.place_for(gang).choose(gang.spec, group, room.free)
        if placement is None:
            return None
        free = room.total[room.kind_of(placement)]
        starts = replace(grant, placement=placement, reason=Reason(Code.FITS, (gang.gang_size, free)))
        why = makes_room_for(gang)
        grants = [starts if one is grant else one for one in plan.grants]
        grants += [Grant(job.id, ((node, job.gang_size),), why) for job, node in moves]
        return replace(plan, grants=grants, evictions=[*leaving, *(Eviction(job.id, why) for job, _ in moves)])

    def _room(self, evictions: Sequence[Eviction], grants: Sequence[Grant]) -> FreeDevices:
        room = FreeDevices(self.view)
        for eviction in evictions:
            room.give(placement_of(self.view.jobs[eviction.job_id]))
        for grant in grants:
            room.take(grant.placement)
        return room

    @property
    def _sizes(self) -> list[int]:
        return [node.device_count for node in self.view.nodes]

    def _movable(self, gang: Job, devices_kept: int, concerned: set[str]) -> dict[int, list[Job]]:
        """By node, those that would gain more than they lose, for so many devices that are not taken from other
        jobs."""
        movable: dict[int, list[Job]] = {}
        for job in self.view.running.values():
            is_small = len(job.allocation) == 1 and job.id not in concerned
            if is_small and self.may_move(job, gang) and self.pays(job, devices_kept / job.gang_size):
                movable.setdefault(job.allocation[0][0], []).append(job)
        return movable


def makes_room_for(gang: Job) -> Reason:
    return Reason(Code.MIGRATED, (f"makes room for the gang of {gang.id}",))


def largest_first(jobs: Sequence[Job]) -> list[Job]:
    return sorted(jobs, key=lambda job: (-job.gang_size, job.tie))


def fragments(jobs: Sequence[Job], lacking: int, nodes: Sequence[int], free: Sequence[int]) -> ToFragments:
    """Where to some of these jobs may go so that what lacks becomes free; nothing if too few of them find a place."""
    left, to = list(free), ToFragments()
    for job in jobs:
        if lacking > 0 and (job.gang_size <= lacking or not to):
            node = best_fit(job.gang_size, nodes, left)
            if node is not None:
                left[node] -= job.gang_size
                lacking -= job.gang_size
                to.append((job, node))
    return to if lacking <= 0 else []


def _clearing(
    gang_size: int, group: NodeGroup, sizes: Sequence[int], free: Sequence[int], movable: Mapping[int, Sequence[Job]]
) -> ToFragments:
    """Moves by which the gang finds the fewest nodes that could hold it, those that are the emptiest already."""
    left, moves, block, wanted = list(free), ToFragments(), set[int](), gang_size
    for node in sorted(group, key=lambda node: (-free[node], node)):
        if len(block) == group.fewest(gang_size):
            break
        share = min(sizes[node], wanted)
        others = [other for other in group if other != node and other not in block]
        to = fragments(largest_first(movable.get(node, ())), share - left[node], others, left)
        if to or left[node] >= share:
            block.add(node)
            wanted -= share
            for job, other in to:
                left[other] -= job.gang_size
                left[node] += job.gang_size
            moves += to
    return moves if wanted <= 0 else []
