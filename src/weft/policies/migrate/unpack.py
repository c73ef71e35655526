"""Guests that could have devices of their own elsewhere: which of them leave the jobs beside which they compute.

It is a migration like any other. It ends what the two cost each other, for as long as the guest is expected to run on,
and it costs the guest what a move costs. One whose owner does not want it moved stays as long as it has its seat; when
the devices on which it sits become free, it gets those, or goes on beside the job that gets them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from weft.core.job import Job
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.sharing import LEAST_SPEED, devices_of
from weft.core.value import value
from weft.core.view import View
from weft.policies.plan.free_devices import FreeDevices
from weft.policies.plan.preemption import P, Placed
from weft.policies.share.candidates import guests_beside

NEVER = math.inf


@value
class Neighbours:
    """What a guest and those beside it make of their devices."""

    speed: float
    """The guest's rate, as a part of its rate alone."""
    lost: float
    """What all of them together lack of their rates alone: 0.5 is half a job's."""

    def pays_from_run_s(self, cost_s: float) -> float:
        """From how long a run on parting pays, if a job runs as long again as it has run."""
        return cost_s * self.speed / self.lost if self.lost > 0 else NEVER


class SeatRetention:
    """Whether a guest that could be granted devices keeps its seat. A throttled guest has waited for devices of its own
    all along: they are its due, and nothing is weighed."""

    def __init__(self) -> None:
        self.cost_s: float | None = None
        """Of a move; None if no job is moved for a gain, so that nothing is weighed."""
        self.wake_at = NEVER
        """When the first of those that stay may be better off elsewhere."""
        self._concerned: set[str] = set()
        """The guests that were found to stay, and the jobs beside them."""
        self._has_planned = False
        """Whether the last plan was about one of them."""
        self._is_passing = False
        """Whether one of them stays for what holds until the next plan at most."""
        self._granted: dict[int, int] = {}
        """By node, the seats that this plan grants to the guests on them."""
        self._vacant: dict[int, int] = {}
        """By node, how many devices with no guests this plan has left so far, of the nodes that were asked about."""
        self._view: View | None = None

    def begin(self, view: View, cost_s: float | None) -> bool:
        """Whether the guests that were found to stay must be looked at again: by then it may pay, or something has
        changed for it or for those beside it."""
        is_due = bool(self._concerned) and (
            self._has_planned
            or view.now >= self.wake_at
            or cost_s != self.cost_s
            or any(job.id in self._concerned for _, job in view.changes)
        )
        self._view, self.cost_s, self._has_planned, self._is_passing = view, cost_s, False, False
        self._granted, self._vacant = {}, {}
        if is_due:
            self._concerned, self.wake_at = set(), NEVER
        return is_due

    def heed(self, view: View, plan: Plan) -> Plan:
        """Take note of the plan's own changes. Guests that are granted their seats come first: no other job picks
        those."""
        evicted, granted = (each.job_id for each in plan.evictions), (each.job_id for each in plan.grants)
        self._has_planned = self._is_passing or not self._concerned.isdisjoint((*evicted, *granted))
        if not view.seated or len(plan.grants) < 2:
            return plan
        return replace(plan, grants=sorted(plan.grants, key=lambda one: not _keeps_seat(view, one, plan.evictions)))

    def granted(self, job: Job, placement: Placement) -> None:
        """Take note of a grant of this plan: it may matter to guests."""
        if job.seating and placement == _seat_of(job):
            for node, mask in job.seating.allocation:
                self._granted[node] = self._granted.get(node, 0) | mask
            return
        if self._view is not None and self._view.guests:
            for node, count in placement:
                self._vacant[node] = self._vacant_on(self._view, node) - count

    def keeps(self, job: Job) -> bool:
        """Whether a job that waits in the line is to stay where it sits though there is room elsewhere."""
        if job.seating is None or self._view is None:
            return False
        pays_at_s = self._pays_at_s(self._view, job)
        if pays_at_s <= self._view.now:
            return False
        hosts = _hosts(self._view, job)
        for host in hosts:
            self._concerned |= {job.id, host.id, *(other.id for other in guests_beside(self._view, host))}
        if not hosts:
            self._stay_for_now(job)
        self.wake_at = min(self.wake_at, pays_at_s)
        return True

    def declines(self, job: Job, placement: Placement) -> bool:
        """Whether a guest rather stays than has these devices, which are free.

        Where no job is moved for a gain, none is moved to where guests sit already, either: it has turns as it is.
        """
        if self.keeps(job):
            return True
        if job.seating is None or self._view is None or self.cost_s is not None or job.seating.is_throttled:
            return False
        view = self._view
        if all(self._vacant_on(view, node) >= count for node, count in placement):
            return False
        self._stay_for_now(job)
        return True

    def at_home(self, guest: Job, room: FreeDevices, behind: Iterable[P]) -> tuple[Placement, list[P]] | None:
        """Its seat as a placement, and the jobs behind it that must leave so that it holds that; None if others hold
        it."""
        assert guest.seating is not None
        assert self._view is not None
        free = {node: self._view.free_masks[node] & ~self._granted.get(node, 0) for node, _ in guest.seating.allocation}
        lacking = {node: mask & ~free[node] for node, mask in guest.seating.allocation}
        leaving = []
        for one in behind:
            there = [(node, mask & lacking[node]) for node, mask in one.job.allocation if mask & lacking.get(node, 0)]
            if there:
                leaving.append(one)
                lacking |= {node: lacking[node] & ~mask for node, mask in there}
        placement = _seat_of(guest)
        room_there = {node: room.free[node] for node, _ in placement}
        for one in leaving:
            room_there |= {node: room_there[node] + count for node, count in one.placement if node in room_there}
        has_room = all(room_there[node] >= count for node, count in placement)
        return (placement, leaving) if has_room and not any(lacking.values()) else None

    def free_home(self, guest: Job, room: FreeDevices) -> Placement | None:
        """Its seat as a placement, if this plan has left it free."""
        home = self.at_home(guest, room, list[Placed]())
        return home[0] if home else None

    def why(self, view: View, job: Job) -> Reason | None:
        """Why a guest has no devices of its own; None if it would take them."""
        if job.seating is None or self._pays_at_s(view, job) <= view.now:
            return None
        if not job.spec.may_migrate:
            return Reason(Code.STAYS, ("it is not to be moved",))
        if job.is_starting(view.now):
            return Reason(Code.STAYS, ("it starts up there",))
        return Reason(Code.STAYS, (f"a move costs {self.cost_s:.1f} s, more than it would gain by now",))

    def _stay_for_now(self, guest: Job) -> None:
        """No job holds its seat by now, or nothing better is free: the next plan may find it otherwise."""
        self._concerned.add(guest.id)
        self._is_passing = True

    def _vacant_on(self, view: View, node: int) -> int:
        """Free devices without guests."""
        if node not in self._vacant:
            mask = view.free_masks[node]
            self._vacant[node] = sum((node, at) not in view.guests for _, at in devices_of(((node, mask),)))
        return self._vacant[node]

    def _pays_at_s(self, view: View, guest: Job) -> float:
        if not guest.spec.may_migrate:
            return NEVER
        if guest.is_starting(view.now):
            return guest.served_from_s  # or when it has made its first step
        if self.cost_s is None or (guest.seating and guest.seating.is_throttled):
            return view.now
        lacking_s = neighbours_of(view, guest).pays_from_run_s(self.cost_s) - guest.run_s(view.now)
        return view.now + lacking_s / guest.speed if lacking_s > 0 else view.now


def neighbours_of(view: View, guest: Job) -> Neighbours:
    """As measured since it sits where it does; before that, as is expected of the seat."""
    measured, alone = guest.measured, guest.alone
    if measured is None or alone is None or measured.generation != guest.generation or not measured.neighbours:
        return Neighbours(guest.speed, 1.0 - guest.speed)
    speed = max(LEAST_SPEED, measured.rate_hz / max(alone.rate_hz, 1e-9))
    others = [view.jobs[other] for other in measured.neighbours if other in view.jobs]
    return Neighbours(speed, 1.0 - speed + sum(1.0 - _speed_beside(other, guest) for other in others))


def _speed_beside(job: Job, guest: Job) -> float:
    measured, alone = job.measured, job.alone
    if measured is None or alone is None or guest.id not in measured.neighbours or not alone.rate_hz:
        return 1.0
    return measured.rate_hz / alone.rate_hz


def _hosts(view: View, guest: Job) -> list[Job]:
    """The holders of the devices on which it sits."""
    seat = dict(guest.seating.allocation if guest.seating else ())
    return [job for job in view.running.values() if any(mask & seat.get(node, 0) for node, mask in job.allocation)]


def _seat_of(guest: Job) -> Placement:
    """As a placement."""
    return tuple([(node, mask.bit_count()) for node, mask in guest.seating.allocation]) if guest.seating else ()


def _keeps_seat(view: View, grant: Grant, evictions: Iterable[Eviction]) -> bool:
    return view.jobs[grant.job_id].seating is not None and not leaves_seat(view, grant, evictions)


def leaves_seat(view: View, grant: Grant, evictions: Iterable[Eviction]) -> bool:
    """Whether a guest that is granted devices gets others than those on which it sits."""
    job = view.jobs[grant.job_id]
    if job.seating is None:
        return False
    seat, freed = dict(job.seating.allocation), dict[int, int]()
    for eviction in evictions:
        for node, mask in view.jobs[eviction.job_id].allocation:
            freed[node] = freed.get(node, 0) | mask
    return any(
        node not in seat or seat[node] & ~(view.free_masks[node] | freed.get(node, 0)) for node, _ in grant.placement
    )
