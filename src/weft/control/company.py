"""Who computes where, and beside whom: holders and their guests."""

from __future__ import annotations

from collections.abc import Iterator

from weft.core.commands import Allocation, Seating
from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.sharing import holders


def place_of(job: Job) -> Seating:
    """Where a job computes, as a guest or on devices of its own."""
    return job.seating or Seating(job.allocation, job.lane)


def computing(ledger: Ledger) -> Iterator[Job]:
    yield from ledger.running.values()
    yield from ledger.seats.seated.values()


def company(ledger: Ledger) -> dict[str, list[str]]:
    """Of each job that is not alone on its devices, the others there: who holds one first, then its guests."""
    held = holders(ledger) if ledger.seats.guests else {}
    found: dict[str, dict[str, None]] = {}
    for device, guests in ledger.seats.guests.items():
        together = [held[device], *guests] if device in held else guests
        for job in together:
            found.setdefault(job.id, {}).update((other.id, None) for other in together if other is not job)
    return {job_id: list(others) for job_id, others in found.items() if others}


def common(one: Allocation, other: Allocation) -> int:
    """How many devices are in both."""
    return sum((mask & theirs).bit_count() for node, mask in one for at, theirs in other if node == at)
