"""Where a guest could sit: devices that one job, or jobs together, hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.sharing import Device, Memory, Offer, devices_of, needed_bytes, seated_lane
from weft.core.view import View

MOST_TRIED = 8
"""At most so many guests are tried for one candidate: whether they fit is a matter of memory, and the others are busier
still."""
MOST_PASSED = 64
"""At most so many are looked at to find those to try: in a long queue, no job may suit this candidate."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The devices of one holder, or a part of them, and the guests there already."""

    holder: Job
    guests: tuple[Job, ...] = ()
    part: Allocation = ()

    @property
    def allocation(self) -> Allocation:
        return self.part or self.holder.allocation

    @property
    def members(self) -> tuple[Job, ...]:
        return (self.holder, *self.guests)

    @property
    def together(self) -> list[tuple[Job, int]]:
        """The members, each with its lane."""
        return [(self.holder, self.holder.lane), *((one, seated_lane(one)) for one in self.guests)]

    def suits(self, view: View, job: Job) -> bool:
        """Whether it could sit here if there were memory enough."""
        if not job.spec.may_share or not self.holder.spec.may_share:
            return False
        if job.spec.skew and len(self.allocation) > 1 and (self.holder.spec.skew or 0.0) < job.spec.skew:
            return False  # it may be spread because its holder does not mind
        if not job.spec.allows(view.nodes[self.allocation[0][0]].device_type):
            return False
        return not job.spec.is_bound or view.admits(job.spec, self.allocation)

    def has_room_for(self, view: View, job: Job) -> bool:
        """Whether a gang of that size could sit on exactly these devices, by type and memory."""
        devices = devices_of(self.allocation)
        if job.gang_size != len(devices) or not self.suits(view, job):
            return False
        together = [*self.together, (job, 0)]
        return all(view.fits(device, together) for device in devices)

    def spare_bytes(self, view: View) -> int:
        """What is left of the memory of each of its devices; negative where a memory is not known."""
        members = list[tuple[Memory, int]]()
        for job, lane in self.together:
            memory = job.memory
            if memory is None or not job.spec.may_share:
                return -1
            members.append((memory, lane))
        return min(view.nodes[node].memory_bytes or 0 for node, _ in self.allocation) - needed_bytes(members)


def candidates_without_guests(view: View, also_taken: Set[Device] = frozenset()) -> list[Candidate]:
    taken = view.guests.keys() | also_taken
    return [
        Candidate(job) for job in view.running.values() if not taken or taken.isdisjoint(devices_of(job.allocation))
    ]


def candidates_with_guests(view: View) -> list[Candidate]:
    """Those with guests beside the holder."""
    held, found = view.holders(), dict[str, dict[str, Job]]()
    for device, guests in view.guests.items():
        if device in held:
            found.setdefault(held[device].id, {}).update({guest.id: guest for guest in guests})
    return [Candidate(view.jobs[job_id], tuple(guests.values())) for job_id, guests in found.items()]


def candidates_measured(view: View) -> list[Candidate]:
    """Those with guests where a member has been measured since the policy last looked, each once."""
    measured = [job for change, job in view.changes if change is Change.MEASURED and job.is_computing]
    found: dict[str, Candidate] = {}
    for job in measured:
        holder = job if job.is_running else holder_of_seat(view, job)
        if holder is not None and holder.id not in found:
            guests = guests_beside(view, holder)
            if guests:
                found[holder.id] = Candidate(holder, guests)
    return list(found.values())


def guests_beside(view: View, holder: Job) -> tuple[Job, ...]:
    """Those on any of its devices, each once."""
    devices = devices_of(holder.allocation)
    return tuple({guest.id: guest for device in devices for guest in view.guests.get(device, ())}.values())


def holder_of_seat(view: View, guest: Job) -> Job | None:
    """The holder of the devices that a guest sits on, or the first of several."""
    seat = dict(guest.seating.allocation if guest.seating else ())
    for job in view.running.values():
        if any(seat.get(node, 0) & mask for node, mask in job.allocation):
            return job
    return None


def utilisation_of(job: Job) -> tuple[float, tuple[float, int]]:
    """How busy it keeps its devices alone, as far as known; of equals, the older job first."""
    known = job.alone or job.measured
    return (known.utilisation if known else 1.0, job.tie)


def fitting(
    view: View, candidates: Iterable[Candidate], guests: Iterable[Job], least_bytes: Callable[[Memory], int]
) -> list[Job]:
    """The guests for which one of the candidates may be large enough, of a type that they allow.

    All others would be tried in vain everywhere, and the guests after them would never be tried.
    """
    needs = [(job, least_bytes(job.memory)) for job in guests if job.memory]
    enough_bytes = max((need_bytes for _, need_bytes in needs), default=0)
    most_bytes = dict[tuple[int, str], int]()
    for candidate in candidates if needs else ():
        kind = (len(devices_of(candidate.allocation)), view.nodes[candidate.allocation[0][0]].device_type)
        known_bytes = most_bytes.get(kind, -1)
        if known_bytes < enough_bytes:
            most_bytes[kind] = max(known_bytes, candidate.spare_bytes(view))
    return [job for job, need_bytes in needs if _fits_one(job, need_bytes, most_bytes)]


def _fits_one(job: Job, least_bytes: int, most_bytes: Mapping[tuple[int, str], int]) -> bool:
    return any(
        least_bytes <= spare_bytes and job.gang_size == gang_size and job.spec.allows(device_type)
        for (gang_size, device_type), spare_bytes in most_bytes.items()
    )


def side_by_side(memory: Memory) -> int:
    """What a guest needs that takes no turns."""
    return memory.persistent_bytes + memory.ephemeral_bytes


def in_turn(memory: Memory) -> int:
    """What it needs at least if others leave it theirs."""
    return memory.persistent_bytes


def pair_quietest(
    candidates: Iterable[Candidate],
    guests: Iterable[Job],
    suits: Callable[[Candidate, Job], bool],
    offered: Callable[[Candidate, Job], Offer | None],
) -> list[Offer]:
    """A guest for each candidate, if any is made an offer: the quietest holders and guests first, each once.

    A guest sits on devices that a gang of its own size holds. A guest that does not suit a candidate is passed over
    there.
    """
    offers, waiting = list[Offer](), _by_gang_size(guests)
    for candidate in sorted(candidates, key=lambda candidate: utilisation_of(candidate.holder)) if waiting else ():
        offers += _first_offer(candidate, waiting.get(candidate.holder.gang_size, []), suits, offered)
    return offers


def pair_parts(
    view: View,
    guests: Sequence[Job],
    may_host: Callable[[Job], bool],
    offered: Callable[[Candidate, Job], Offer | None],
) -> list[Offer]:
    """Guests for parts of larger gangs: on each device one at most, the quietest first, each once."""

    def suits(candidate: Candidate, job: Job) -> bool:
        return candidate.suits(view, job)

    sizes = sorted({job.gang_size for job in guests}, reverse=True)
    gangs = (job for job in view.running.values() if sizes and job.gang_size > sizes[-1])
    holders = sorted(filter(may_host, gangs), key=utilisation_of)
    parts = (
        Candidate(holder, (), part)
        for holder in holders
        for size in sizes
        if size < holder.gang_size and (part := _part(_left(view, holder), size))
    )
    offers, waiting = list[Offer](), _by_gang_size(fitting(view, parts, guests, side_by_side))
    for holder in holders:
        left = _left(view, holder)
        for gang_size in (size for size in sizes if size in waiting and size < holder.gang_size):
            while part := _part(left, gang_size):
                made = _first_offer(Candidate(holder, (), part), waiting[gang_size], suits, offered)
                if not made:
                    break
                offers += made
                left |= {node: left[node] & ~mask for node, mask in part}
    return offers


def _first_offer(
    candidate: Candidate,
    waiting: list[Job],
    suits: Callable[[Candidate, Job], bool],
    offered: Callable[[Candidate, Job], Offer | None],
) -> list[Offer]:
    """To one of the waiting jobs, if any; it is taken out of the list."""
    suiting = (at for at, job in enumerate(waiting[:MOST_PASSED]) if suits(candidate, job))
    for at in islice(suiting, MOST_TRIED):
        offer = offered(candidate, waiting[at])
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


def _left(view: View, holder: Job) -> dict[int, int]:
    """Its devices without guests, by node."""
    return {
        node: mask & ~sum(1 << at for at in range(mask.bit_length()) if (node, at) in view.guests)
        for node, mask in holder.allocation
    }


def _part(left: Mapping[int, int], gang_size: int) -> Allocation:
    """The first so many of what is left on one node; empty if there are not so many."""
    for node, mask in left.items():
        if mask.bit_count() >= gang_size:
            devices = [1 << at for at in range(mask.bit_length()) if mask >> at & 1]
            return ((node, sum(devices[:gang_size])),)
    return ()
