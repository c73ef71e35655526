"""A policy that says what it is told to about seats as well, and small words for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from core_helpers import BECAUSE, Make, Script, grant, submitted

from weft.core.commands import Allocation, Command, Seat, Seating, Unseat
from weft.core.events import Event
from weft.core.plan import Plan
from weft.core.scheduler import Scheduler
from weft.core.sharing import Offer, Sharing, Withdrawal
from weft.core.values import Node
from weft.core.view import View

NODE = Node("n0", 2, "any", 100)
"""Two devices of 100 bytes each."""

FIRST, SECOND = ((0, 0b01),), ((0, 0b10),)
"""Its devices as allocations."""


class Host(Script):
    def __init__(self, plans: Sequence[Plan] = (), sharings: Sequence[Sharing] = ()) -> None:
        super().__init__(*plans)
        self.sharings = list(sharings)
        self.seen: list[View] = []

    def seat(self, view: View) -> Sharing:
        self.seen.append(view)
        return self.sharings.pop(0) if self.sharings else Sharing()


def offer(job_id: str, allocation: Allocation = FIRST, **seating: Any) -> Offer:
    return Offer(job_id, Seating(allocation, **seating), BECAUSE)


def withdrawal(job_id: str) -> Withdrawal:
    return Withdrawal(job_id, BECAUSE)


def seated(commands: list[Command]) -> dict[str, Seating]:
    return {command.job_id: command.seating for command in commands if isinstance(command, Seat)}


def unseated(commands: list[Command]) -> list[str]:
    return [command.job_id for command in commands if isinstance(command, Unseat)]


def guests(scheduler: Scheduler) -> dict[tuple[int, int], list[str]]:
    return {device: [job.id for job in some] for device, some in scheduler.ledger.seats.guests.items()}


def a_guest_beside_a_holder(
    make: Make, *plans: Plan, sharings: Sequence[Sharing] = (), events: Sequence[Event] = (), **seating: Any
) -> Scheduler:
    """Both of 30 bytes: the holder holds the first device, and since 1 s the guest sits beside it.

    Then come these plans and sharings.
    """
    host = Host([Plan([grant("holder", (0, 1))]), Plan(), *plans], [Sharing(), Sharing([offer("guest", **seating)])])
    host.sharings += sharings
    scheduler = make(host, NODE)
    scheduler.handle([submitted(name, memory_bytes=30, tenant=name) for name in ("holder", "guest")], 0.0)
    scheduler.handle(events, 1.0)
    return scheduler
