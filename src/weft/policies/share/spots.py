"""Where a guest could sit: the devices that somebody holds together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.sharing import Offer, devices_of, fits, holders, seated_lane
from weft.core.view import View

MOST_TRIED = 8
"""So many guests are tried at one spot: whether they fit is a matter of memory, and the others are busier still."""


@dataclass(frozen=True, slots=True)
class Spot:
    """The devices of one holder, and who sits there already."""

    holder: Job
    guests: tuple[Job, ...] = ()

    @property
    def allocation(self) -> Allocation:
        return self.holder.allocation

    @property
    def members(self) -> tuple[Job, ...]:
        return (self.holder, *self.guests)

    def has_room_for(self, view: View, job: Job, lane: int = 0) -> bool:
        """Whether a gang of that size could sit on exactly these devices, by type and memory."""
        holder = self.holder
        if job.gang_size != holder.gang_size or not job.spec.may_share or not holder.spec.may_share:
            return False
        if job.spec.skew and len(self.allocation) > 1 and (holder.spec.skew or 0.0) < job.spec.skew:
            return False  # it may be spread because its holder does not mind
        if not job.spec.allows(view.nodes[self.allocation[0][0]].device_type):
            return False
        together = [(holder, holder.lane), *((one, seated_lane(one)) for one in self.guests), (job, lane)]
        return all(fits(view.ledger, device, together) for device in devices_of(self.allocation))


def spots_without_guests(view: View) -> list[Spot]:
    taken = set(view.guests)
    return [Spot(job) for job in view.running.values() if not taken or taken.isdisjoint(devices_of(job.allocation))]


def spots_with_guests(view: View) -> list[Spot]:
    """Those whose devices have guests beside their holder."""
    held, found = holders(view.ledger), dict[str, dict[str, Job]]()
    for device, guests in view.guests.items():
        if device in held:
            found.setdefault(held[device].id, {}).update({guest.id: guest for guest in guests})
    return [Spot(view.jobs[job_id], tuple(guests.values())) for job_id, guests in found.items()]


def spots_measured(view: View) -> list[Spot]:
    """Those with guests where somebody has been measured since the policy last looked, each once."""
    measured = [job for change, job in view.changes if change is Change.MEASURED and job.is_computing]
    found: dict[str, Spot] = {}
    for job in measured:
        holder = job if job.is_running else holder_of_seat(view, job)
        if holder is not None and holder.id not in found:
            guests = guests_beside(view, holder)
            if guests:
                found[holder.id] = Spot(holder, guests)
    return list(found.values())


def guests_beside(view: View, holder: Job) -> tuple[Job, ...]:
    """Those on any of its devices, each once."""
    devices = devices_of(holder.allocation)
    return tuple({guest.id: guest for device in devices for guest in view.guests.get(device, ())}.values())


def holder_of_seat(view: View, guest: Job) -> Job | None:
    """Who holds exactly the devices on which it sits."""
    where = guest.seating.allocation if guest.seating else ()
    return next((job for job in view.running.values() if job.allocation == where), None)


def utilisation_of(job: Job) -> tuple[float, tuple[float, int]]:
    """How busy it keeps its devices alone, as far as known; of equals, who came first."""
    known = job.alone or job.measured
    return (known.utilisation if known else 1.0, job.tie)


def pair_quietest(
    spots: Iterable[Spot], guests: Iterable[Job], offered: Callable[[Spot, Job], Offer | None]
) -> list[Offer]:
    """A guest for each spot, if any is made an offer: the quietest holders and guests first, each once.

    A guest sits on devices that a gang of its own size holds.
    """
    waiting: dict[int, list[Job]] = {}
    for job in sorted(guests, key=utilisation_of):
        waiting.setdefault(job.gang_size, []).append(job)
    offers: list[Offer] = []
    for spot in sorted(spots, key=lambda spot: utilisation_of(spot.holder)) if waiting else ():
        able = waiting.get(spot.holder.gang_size, [])
        offer = next((made for made in (offered(spot, job) for job in able[:MOST_TRIED]) if made), None)
        if offer is not None:
            offers.append(offer)
            able.remove(next(job for job in able if job.id == offer.job_id))
    return offers
