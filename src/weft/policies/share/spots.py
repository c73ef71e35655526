"""Where a guest could sit: the devices that somebody holds together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    """The devices of one holder, or a part of them, and who sits there already."""

    holder: Job
    guests: tuple[Job, ...] = ()
    part: Allocation = ()

    @property
    def allocation(self) -> Allocation:
        return self.part or self.holder.allocation

    @property
    def members(self) -> tuple[Job, ...]:
        return (self.holder, *self.guests)

    def has_room_for(self, view: View, job: Job, lane: int = 0) -> bool:
        """Whether a gang of that size could sit on exactly these devices, by type and memory."""
        holder, devices = self.holder, list(devices_of(self.allocation))
        if job.gang_size != len(devices) or not job.spec.may_share or not holder.spec.may_share:
            return False
        if job.spec.skew and len(self.allocation) > 1 and (holder.spec.skew or 0.0) < job.spec.skew:
            return False  # it may be spread because its holder does not mind
        if not job.spec.allows(view.nodes[self.allocation[0][0]].device_type):
            return False
        together = [(holder, holder.lane), *((one, seated_lane(one)) for one in self.guests), (job, lane)]
        return all(fits(view.ledger, device, together) for device in devices)


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
    """Who holds the devices on which it sits, or the first of several."""
    seat = dict(guest.seating.allocation if guest.seating else ())
    for job in view.running.values():
        if any(seat.get(node, 0) & mask for node, mask in job.allocation):
            return job
    return None


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
    offers, waiting = list[Offer](), _by_gang_size(guests)
    for spot in sorted(spots, key=lambda spot: utilisation_of(spot.holder)) if waiting else ():
        offers += _first_offer(spot, waiting.get(spot.holder.gang_size, []), offered)
    return offers


def pair_parts(
    view: View, guests: Iterable[Job], may_host: Callable[[Job], bool], offered: Callable[[Spot, Job], Offer | None]
) -> list[Offer]:
    """Guests for parts of larger gangs: on each device one at most, the quietest first, each once."""
    offers, waiting = list[Offer](), _by_gang_size(guests)
    gangs = (job for job in view.running.values() if job.gang_size > min(waiting, default=job.gang_size))
    for holder in sorted(filter(may_host, gangs), key=utilisation_of):
        left = {node: _without_guests(view, node, mask) for node, mask in holder.allocation}
        for gang_size in sorted((size for size in waiting if size < holder.gang_size), reverse=True):
            while part := _part(left, gang_size):
                made = _first_offer(Spot(holder, (), part), waiting[gang_size], offered)
                if not made:
                    break
                offers += made
                left |= {node: left[node] & ~mask for node, mask in part}
    return offers


def _first_offer(spot: Spot, waiting: list[Job], offered: Callable[[Spot, Job], Offer | None]) -> list[Offer]:
    """To one of those who wait, if any; it waits no more then."""
    for at, job in enumerate(waiting[:MOST_TRIED]):
        offer = offered(spot, job)
        if offer is not None:
            del waiting[at]
            return [offer]
    return []


def _by_gang_size(guests: Iterable[Job]) -> dict[int, list[Job]]:
    """The quietest first."""
    found: dict[int, list[Job]] = {}
    for job in sorted(guests, key=utilisation_of):
        found.setdefault(job.gang_size, []).append(job)
    return found


def _without_guests(view: View, node: int, mask: int) -> int:
    return mask & ~sum(1 << at for at in range(mask.bit_length()) if (node, at) in view.guests)


def _part(left: Mapping[int, int], gang_size: int) -> Allocation:
    """The first so many of what is left on one node; empty if there are not so many."""
    for node, mask in left.items():
        if mask.bit_count() >= gang_size:
            devices = [1 << at for at in range(mask.bit_length()) if mask >> at & 1]
            return ((node, sum(devices[:gang_size])),)
    return ()
