"""Seats for newcomers: jobs of declared memory that have never run start at once, beside the holder of a device.

Their imports overlap, as many at a time as the host has CPU cores, and people see first steps early. In its first
`part_s` device-seconds a job computes side by side with the others there; then it leaves, and competes for devices
and seats like any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from weft.core.bounds import cpu_counts, host_of
from weft.core.commands import Allocation, Seating
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Device, Offer, Withdrawal, devices_of, seated_lane
from weft.core.values import EPSILON_S
from weft.core.view import View

MOST_MEMBERS = 8
"""So many jobs at most compute on one device for that: with more of them each would get next to nothing."""

SEATS_FREED = (Change.LEFT, Change.STARTUP)
"""What may have left a seat, or a core for a start-up."""
Peers = Callable[[Job, Job], bool]


@dataclass
class FirstSeats:
    part_s: float
    """Device-seconds for which a job is a newcomer."""
    _waiting: dict[str, Job] = field(default_factory=dict, init=False, repr=False)
    """Those that may want a seat, by arrival, and some that have begun since."""
    _holders: tuple[int, str, int] = field(default=(-1, "", 0), init=False, repr=False)
    _version: int = field(default=-1, init=False, repr=False)

    def is_new(self, job: Job, now: float) -> bool:
        """Whether it is in its first part, and was never measured alone: then it is judged like all others."""
        return job.alone is None and job.spec.memory_bytes is not None and not self._is_over(job, now)

    def withdrawn(self, view: View, leaving: Container[str]) -> list[Withdrawal]:
        """Guests that have had their first part."""
        reason = Reason(Code.FIRST_SEAT_OVER)
        guests = (one for one in view.seated.values() if self._has_first_seat(one) and one.id not in leaving)
        return [Withdrawal(guest.id, reason) for guest in guests if self._is_over(guest, view.now)]

    def seated(self, view: View) -> list[str]:
        """The guests that sit as newcomers."""
        return [guest.id for guest in view.seated.values() if self._has_first_seat(guest)]

    def offers(self, view: View, are_peers: Peers, leaving: Container[str]) -> list[Offer]:
        """Each that waits, by arrival, to the device with the fewest members that has room for it."""
        if not self._has_news(view):
            return []
        devices = dict(_held_alone(view, leaving)) if self._waiting else {}
        cores = _cores_for_startups(view)
        offers = list[Offer]()
        for guest in self._waiting.values():
            with_core = {device: jobs for device, jobs in devices.items() if cores.get(_host(view, device), 1) > 0}
            found = self._device_for(view, guest, with_core, are_peers)
            if found is not None:
                cores[_host(view, found)] = cores.get(_host(view, found), math.inf) - 1
                holder = devices[found][0]
                devices[found].append(guest)
                seating = Seating(((found[0], 1 << found[1]),), speed=1.0 / len(devices[found]))
                offers.append(Offer(guest.id, seating, Reason(Code.FIRST_SEAT, (holder.id,))))
        return offers

    def wake_at(self, view: View) -> float:
        """When the next guest will have had its first part."""
        ends = (self._over_at_s(one, view.now) for one in view.seated.values() if self._has_first_seat(one))
        return min((end_s for end_s in ends if end_s > view.now), default=math.inf)

    def _has_first_seat(self, guest: Job) -> bool:
        seating = guest.seating
        is_beside = seating is not None and not seating.is_throttled and not seating.lane
        return is_beside and guest.alone is None and guest.spec.memory_bytes is not None

    def _is_over(self, job: Job, now: float) -> bool:
        return job.attained(now) + EPSILON_S >= self.part_s

    def _over_at_s(self, guest: Job, now: float) -> float:
        return guest.charged_from_s(now) + (self.part_s - guest.attained(now)) / guest.speed

    def _has_news(self, view: View) -> bool:
        """Whether a job has come, or a seat may have become free, since this was last asked."""
        is_anew, self._version = view.version != self._version, view.version
        come = view.jobs.values() if is_anew else (job for change, job in view.changes if change is Change.QUEUED)
        newcomers = {job.id: job for job in come if _may_sit(job)}
        self._waiting |= newcomers
        last = next(view.last_granted(), None)
        before = self._holders
        self._holders = (len(view.running), last.id, last.generation) if last else (0, "", 0)
        if not self._waiting:
            return False
        self._waiting = {job.id: job for job in self._waiting.values() if job.id in view.jobs and _may_sit(job)}
        has_left = any(change in SEATS_FREED or not job.is_computing for change, job in view.changes)
        return is_anew or bool(newcomers) or has_left or before != self._holders

    def _device_for(self, view: View, guest: Job, devices: dict[Device, list[Job]], are_peers: Peers) -> Device | None:
        for device, members in sorted(devices.items(), key=lambda each: (len(each[1]), each[0])):
            if len(members) >= MOST_MEMBERS:
                return None
            if not guest.spec.allows(view.nodes[device[0]].device_type) or not are_peers(members[0], guest):
                continue
            together = [(members[0], members[0].lane), *((one, seated_lane(one)) for one in members[1:]), (guest, 0)]
            if view.fits(device, together):
                return device
        return None


def _cores_for_startups(view: View) -> dict[str, float]:
    """Of each host whose CPU cores are known, how many are left for start-ups. Imports are work for a core: if more of
    them share one, all end late, and none of them sooner than in turn."""
    cores: dict[str, float] = dict(cpu_counts(view.nodes, view.is_present))
    for job in (*view.running.values(), *view.seated.values()):
        if job.is_starting(view.now) or (job.generation == 1 and job.since_s == view.now):
            for host in {_host(view, device) for device in devices_of(_where(job))} & cores.keys():
                cores[host] -= 1
    return cores


def _where(job: Job) -> Allocation:
    return job.seating.allocation if job.seating else job.allocation


def _host(view: View, device: Device) -> str:
    return host_of(view.nodes[device[0]])


def _may_sit(job: Job) -> bool:
    is_able = job.gang_size == 1 and job.spec.may_share and job.spec.memory_bytes is not None
    return is_able and job.is_waiting and job.seating is None and not job.generation


def _held_alone(view: View, leaving: Container[str]) -> Iterator[tuple[Device, list[Job]]]:
    """Devices that one job holds by itself, with the guests there that compute freely."""
    for holder in view.running.values():
        if holder.gang_size == 1 and holder.spec.may_share:
            (device,) = devices_of(holder.allocation)
            guests = [one for one in view.guests.get(device, ()) if one.id not in leaving]
            if not any(one.seating and (one.seating.is_throttled or one.alone) for one in guests):
                yield device, [holder, *guests]
