"""Sharing devices: the memory that jobs need beside each other, what a policy proposes, and the check of it."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from weft.core.bounds import admits, cpus_left
from weft.core.commands import Allocation, Seating
from weft.core.errors import PlanRejectedError
from weft.core.reasons import Reason
from weft.core.value import value

if TYPE_CHECKING:
    from weft.core.job import Job
    from weft.core.ledger import Ledger


@value
class Memory:
    """Of one task on one device."""

    persistent_bytes: int
    """P: what is alive between two steps."""
    ephemeral_bytes: int
    """T: the most that a step needs on top."""


def needed_bytes(members: Iterable[tuple[Memory, int]]) -> int:
    """Salus's safety condition in its paper form, Σ P + Σ over lanes of max T, of jobs and their lanes on one device.

    Members of a lane take turns, so that one T is alive at a time; a job in lane 0 takes no turns.
    """
    total_bytes, lanes = 0, dict[int, int]()
    for memory, lane in members:
        total_bytes += memory.persistent_bytes
        if lane:
            lanes[lane] = max(lanes.get(lane, 0), memory.ephemeral_bytes)
        else:
            total_bytes += memory.ephemeral_bytes
    return total_bytes + sum(lanes.values())


Device = tuple[int, int]
"""The index of its node, and which of the node's devices it is."""

FILLED = 0.6
"""The part of what others leave idle that a guest gets whom the node holds back: policies charge it by that, and the
simulated world goes by it. An assumption, on the careful side: on CPU devices `make bench-live` saw a guest get all of
it (104 %, by its task's own time); it has not been measured on a GPU.
"""

LEAST_SPEED = 0.01
"""A guest is charged for at least that part of its devices' time, whatever its rate."""


# ---- What a policy proposes, and the check that refuses it.


@value
class Offer:
    """Let a waiting job compute on devices that it does not hold."""

    job_id: str
    seating: Seating
    reason: Reason


@value
class Withdrawal:
    """A guest is to leave its seat; it waits again."""

    job_id: str
    reason: Reason


@value
class Note:
    """What was learnt about a seat that does not change, for `weft why`."""

    job_id: str
    reason: Reason


@value
class Sharing:
    """Withdrawals come first, so a guest may change its seat in one proposal."""

    offers: Sequence[Offer] = ()
    withdrawals: Sequence[Withdrawal] = ()
    notes: Sequence[Note] = ()
    wake_at: float = math.inf


NO_CHANGE = Sharing()


@lru_cache(maxsize=1 << 16)
def devices_of(allocation: Allocation) -> tuple[Device, ...]:
    """The single devices of an allocation. Cached: each search for guests asks for the same allocations."""
    return tuple((node, index) for node, mask in allocation for index in range(mask.bit_length()) if mask >> index & 1)


def holders(ledger: Ledger) -> dict[Device, Job]:
    """The holder of each device that has one."""
    return {device: job for job in ledger.running.values() for device in devices_of(job.allocation)}


def members_on(
    ledger: Ledger, device: Device, held: Mapping[Device, Job], leaving: Container[str] = ()
) -> list[tuple[Job, int]]:
    """The jobs on a device, each with its lane: its holder first, then the guests that stay."""
    holder = [(held[device], held[device].lane)] if device in held else []
    guests = ledger.seats.guests.get(device, ())
    return holder + [(guest, seated_lane(guest)) for guest in guests if guest.id not in leaving]


def fits(ledger: Ledger, device: Device, jobs: Sequence[tuple[Job, int]]) -> bool:
    """Whether these jobs, each with its lane, may share a device: the safety condition, and their consent.

    A job of unknown memory is never known to fit beside others.
    """
    if len(jobs) < 2:
        return True
    capacity_bytes = ledger.nodes[device[0]].memory_bytes
    known = [(job.memory, lane) for job, lane in jobs if job.spec.may_share]
    members = [(memory, lane) for memory, lane in known if memory is not None]
    return capacity_bytes is not None and len(members) == len(jobs) and needed_bytes(members) <= capacity_bytes


def check(sharing: Sharing, ledger: Ledger, now: float) -> None:
    """Check a proposal; the only place that refuses seats. Raises PlanRejectedError before anything is changed."""
    if not sharing.wake_at > now:
        raise PlanRejectedError(f"the policy asks to be woken at {sharing.wake_at:g} s, which is not after {now:g} s")
    if not sharing.offers and not sharing.withdrawals:
        return
    leaving = [withdrawal.job_id for withdrawal in sharing.withdrawals]
    for job_id in leaving:
        if job_id not in ledger.seats.seated or leaving.count(job_id) > 1:
            raise PlanRejectedError(f"{job_id} is to leave a seat that it has not")
    held = holders(ledger) if sharing.offers else {}
    together: dict[Device, list[tuple[Job, int]]] = {}
    taken = set[str]()
    for offer in sharing.offers:
        job = ledger.jobs.get(offer.job_id)
        may_sit = job is not None and job.is_waiting and (job.seating is None or job.id in leaving)
        if job is None or not may_sit or job.id in taken:
            raise PlanRejectedError(f"{offer.job_id} is offered a seat but does not wait for one")
        taken.add(job.id)
        _check_seat(job, offer.seating, ledger)
        for device in devices_of(offer.seating.allocation):
            if device not in together:
                together[device] = members_on(ledger, device, held, leaving)
            together[device].append((job, offer.seating.lane))
    for device, jobs in together.items():
        if not fits(ledger, device, jobs):
            names = ", ".join(job.id for job, _ in jobs)
            raise PlanRejectedError(f"{names} do not fit on one device of {ledger.nodes[device[0]].name}")
    if ledger.exceptions:
        kept = within_bounds(ledger, sharing.offers, leaving)
        if len(kept) < len(sharing.offers):
            names = ", ".join(sorted({offer.job_id for offer in sharing.offers} - {offer.job_id for offer in kept}))
            raise PlanRejectedError(f"{names}: seats without enough CPU cores, or on other devices than they name")


def within_bounds(ledger: Ledger, offers: Sequence[Offer], leaving: Container[str]) -> list[Offer]:
    """Those of the offers, in order, for which there are CPU cores enough, on devices that the jobs name if any."""
    left = cpus_left(ledger, leaving=leaving)
    seats = [(offer, ledger.jobs[offer.job_id].spec, offer.seating.allocation) for offer in offers]
    return [offer for offer, spec, allocation in seats if admits(ledger, left, spec, allocation)]


def seated_lane(job: Job) -> int:
    return job.seating.lane if job.seating else 0


def _check_seat(job: Job, seating: Seating, ledger: Ledger) -> None:
    """A guest's gang is seated whole, on present devices of one allowed type that are not blocked."""
    kinds, count = set[str](), 0
    for node, mask in seating.allocation:
        is_there = 0 <= node < len(ledger.nodes) and ledger.is_present[node]
        usable = ((1 << ledger.nodes[node].device_count) - 1) & ~ledger.blocked_masks[node] if is_there else 0
        if not mask or mask & ~usable:
            raise PlanRejectedError(f"{job.id} is seated on devices that are not there: {seating.allocation}")
        kinds.add(ledger.nodes[node].device_type)
        count += mask.bit_count()
    if count != job.gang_size or len({node for node, _ in seating.allocation}) != len(seating.allocation):
        raise PlanRejectedError(f"{job.id} needs its gang of {job.gang_size} whole, but sits at {seating.allocation}")
    if len(kinds) != 1 or not job.spec.allows(*kinds):
        raise PlanRejectedError(f"{job.id} may not run on {' and '.join(sorted(kinds))}")
    if seating.lane < 0 or (seating.lane and job.gang_size > 1):
        raise PlanRejectedError(f"{job.id}, a gang of {job.gang_size}, cannot take turns in lane {seating.lane}")
    if not 0.0 < seating.speed <= 1.0:
        raise PlanRejectedError(f"{job.id} is seated with a speed of {seating.speed:g}")
