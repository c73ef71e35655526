"""The guests of each device. Only the ledger writes here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.sharing import Device, devices_of

if TYPE_CHECKING:
    from weft.core.job import Job


class Seats:
    def __init__(self) -> None:
        self.seated: dict[str, Job] = {}
        self.guests: dict[Device, list[Job]] = {}
        """The guests of each device in the order they were seated, without its holder."""

    def take(self, job: Job) -> None:
        """Seat a job where its seating says."""
        self.seated[job.id] = job
        for device in devices_of(job.seating.allocation if job.seating else ()):
            self.guests.setdefault(device, []).append(job)

    def leave(self, job: Job) -> None:
        for device in devices_of(job.seating.allocation if job.seating else ()):
            self.guests[device].remove(job)
            if not self.guests[device]:
                del self.guests[device]
        del self.seated[job.id]

    def on(self, node: int, mask: int) -> list[Job]:
        """The guests on these devices of a node, each once."""
        found = {
            guest.id: guest
            for (at, device), guests in self.guests.items()
            for guest in guests
            if at == node and mask >> device & 1
        }
        return list(found.values())

    def validate(self, jobs: dict[str, Job]) -> None:
        assert self.seated == {job.id: job for job in jobs.values() if job.seating}
        sitting = [
            (device, job.id)
            for job in self.seated.values()
            for device in devices_of(job.seating.allocation if job.seating else ())
        ]
        assert sorted((device, job.id) for device, guests in self.guests.items() for job in guests) == sorted(sitting)
        assert all(job.is_waiting for job in self.seated.values()), f"some of {self.seated} sit but do not wait"
