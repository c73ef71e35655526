"""What a guarantee is worth beside guests, as a predicate."""

from __future__ import annotations

from collections.abc import Callable

from weft.core.job import Job
from weft.core.ledger import Ledger
from weft.core.sharing import holders


def unprotected(ledger: Ledger, is_guaranteed: Callable[[Job], bool]) -> list[tuple[str, str]]:
    """Every guaranteed holder with a guest beside it that nobody holds back. After a decision there is none.

    Who is guaranteed is what the policy's classes say (`QuotaClasses.is_guaranteed`), or what a replay knows of them.
    """
    held = holders(ledger)
    found = {
        (held[device].id, guest.id)
        for device, guests in ledger.seats.guests.items()
        for guest in guests
        if device in held and guest.seating and not guest.seating.is_throttled and is_guaranteed(held[device])
    }
    return sorted(found)
