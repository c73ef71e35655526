"""Guests that could have devices of their own elsewhere: who is to be parted from those beside whom it computes.

It is a migration like any other. It ends what the two cost each other, for as long as the guest is expected to run on,
and it costs the guest what a move costs. One whose owner does not want it moved stays as long as it has its seat; when
the devices on which it sits become free, it gets those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.plan import Eviction, Grant, Placement, Plan
from weft.core.reasons import Code, Reason
from weft.core.value import value
from weft.core.view import View
from weft.policies.room import P, Room
from weft.policies.share.spots import guests_beside

LEAST_SPEED = 0.01
NEVER = math.inf


@value
class Company:
    """What a guest and those beside it make of their devices."""

    speed: float
    """The guest's rate, as a part of its rate alone."""
    lost: float
    """What all of them together lack of their rates alone: 0.5 is half a job's."""

    def pays_from_run_s(self, cost_s: float) -> float:
        """From how long a run on parting pays, if a job runs as long again as it has run."""
        return cost_s * self.speed / self.lost if self.lost > 0 else NEVER


class Staying:
    """Asked of a guest whose turn it is. Who is held back by the node has waited for devices of its own all along:
    they are its due, and nothing is weighed."""

    def __init__(self) -> None:
        self.cost_s: float | None = None
        """Of a move; None if nobody is moved for a gain, so that nothing is weighed."""
        self.wake_at = NEVER
        """When the first of those that stay may be better off elsewhere."""
        self._concerned: set[str] = set()
        """Who was found to stay, and who is beside them."""
        self._has_planned = False
        """Whether the last plan was about one of them."""
        self._view: View | None = None

    def begin(self, view: View, cost_s: float | None) -> bool:
        """Whether whoever was found to stay is to be looked at again: by then it may pay, or something has changed for
        it or for those beside it."""
        is_due = bool(self._concerned) and (
            self._has_planned
            or view.now >= self.wake_at
            or cost_s != self.cost_s
            or any(job.id in self._concerned for _, job in view.changes)
        )
        self._view, self.cost_s, self._has_planned = view, cost_s, False
        if is_due:
            self._concerned, self.wake_at = set(), NEVER
        return is_due

    def heed(self, plan: Plan) -> None:
        """Of what a plan itself changes nobody is told."""
        evicted, granted = (each.job_id for each in plan.evictions), (each.job_id for each in plan.grants)
        self._has_planned = not self._concerned.isdisjoint((*evicted, *granted))

    def keeps(self, job: Job) -> bool:
        """Whether a job that waits in the line is to stay where it sits though there is room elsewhere."""
        if job.seating is None or self._view is None:
            return False
        pays_at_s = self._pays_at_s(self._view, job)
        if pays_at_s <= self._view.now or is_seat_free(self._view.ledger, job):
            return False
        for host in _hosts(self._view, job):
            self._concerned |= {job.id, host.id, *(other.id for other in guests_beside(self._view, host))}
        self.wake_at = min(self.wake_at, pays_at_s)
        return True

    def at_home(self, guest: Job, room: Room, behind: Iterable[P]) -> tuple[Placement, list[P]] | None:
        """Its seat as a placement, and who of those behind it is to leave so that it holds that; None if others do."""
        assert guest.seating is not None
        assert self._view is not None
        lacking = {node: mask & ~self._view.free_masks[node] for node, mask in guest.seating.allocation}
        leaving = []
        for one in behind:
            there = [(node, mask & lacking[node]) for node, mask in one.job.allocation if mask & lacking.get(node, 0)]
            if there:
                leaving.append(one)
                lacking |= {node: lacking[node] & ~mask for node, mask in there}
        placement = tuple([(node, mask.bit_count()) for node, mask in guest.seating.allocation])
        room_there = {node: room.free[node] for node, _ in placement}
        for one in leaving:
            room_there |= {node: room_there[node] + count for node, count in one.placement if node in room_there}
        has_room = all(room_there[node] >= count for node, count in placement)
        return (placement, leaving) if has_room and not any(lacking.values()) else None

    def why(self, view: View, job: Job) -> Reason | None:
        """In words, for who asks why a guest has no devices of its own; None if it would take them."""
        if job.seating is None or self._pays_at_s(view, job) <= view.now:
            return None
        if not job.spec.may_migrate:
            return Reason(Code.STAYS, ("it is not to be moved",))
        return Reason(Code.STAYS, (f"a move costs {self.cost_s:.1f} s, more than it would gain by now",))

    def _pays_at_s(self, view: View, guest: Job) -> float:
        if not guest.spec.may_migrate:
            return NEVER
        if self.cost_s is None or (guest.seating and guest.seating.is_throttled):
            return view.now
        lacking_s = company_of(view, guest).pays_from_run_s(self.cost_s) - guest.run_s(view.now)
        return view.now + lacking_s / guest.speed if lacking_s > 0 else view.now


def company_of(view: View, guest: Job) -> Company:
    """As measured since it sits where it does; before that, as is expected of the seat."""
    measured, alone = guest.measured, guest.alone
    if measured is None or alone is None or measured.generation != guest.generation or not measured.neighbours:
        return Company(guest.speed, 1.0 - guest.speed)
    speed = max(LEAST_SPEED, measured.rate_hz / max(alone.rate_hz, 1e-9))
    others = [view.jobs[other] for other in measured.neighbours if other in view.jobs]
    return Company(speed, 1.0 - speed + sum(1.0 - _speed_beside(other, guest) for other in others))


def _speed_beside(job: Job, guest: Job) -> float:
    measured, alone = job.measured, job.alone
    if measured is None or alone is None or guest.id not in measured.neighbours or not alone.rate_hz:
        return 1.0
    return measured.rate_hz / alone.rate_hz


def _hosts(view: View, guest: Job) -> list[Job]:
    """Who holds the devices on which it sits."""
    seat = dict(guest.seating.allocation if guest.seating else ())
    return [job for job in view.running.values() if any(mask & seat.get(node, 0) for node, mask in job.allocation)]


def is_seat_free(ledger: Ledger, guest: Job) -> bool:
    """Whether nobody holds the devices on which it sits, so that it can have those."""
    return ledger.devices.lacking(guest.seating.allocation if guest.seating else ()) is None


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
