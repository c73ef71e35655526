"""Everything a policy may look at, at one instant. Read-only by contract; the ledger itself stays inside."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Protocol

from weft.core import bounds, sharing
from weft.core.commands import Allocation
from weft.core.job import Job
from weft.core.ledger import Change, Ledger
from weft.core.plan import Plan
from weft.core.reasons import Reason
from weft.core.sharing import Device, Offer
from weft.core.tenants import Tenants
from weft.core.values import JobSpec, Node


class View:
    """The ledger as a policy sees it, at `now`."""

    __slots__ = (
        "_ledger",
        "blocked_masks",
        "changes",
        "device_count",
        "free_counts",
        "free_masks",
        "guests",
        "is_present",
        "jobs",
        "nodes",
        "now",
        "running",
        "seated",
        "tenants",
        "version",
    )

    def __init__(self, ledger: Ledger, changes: Sequence[tuple[Change, Job]], now: float) -> None:
        self.now = now
        self.jobs: Mapping[str, Job] = ledger.jobs
        self.running: Mapping[str, Job] = ledger.running
        self.nodes: Sequence[Node] = ledger.nodes
        self.is_present: Sequence[bool] = ledger.is_present
        self.free_counts: Sequence[int] = ledger.free_counts
        self.free_masks: Sequence[int] = ledger.free_masks
        self.blocked_masks: Sequence[int] = ledger.blocked_masks
        self.seated: Mapping[str, Job] = ledger.seats.seated
        self.guests: Mapping[Device, Sequence[Job]] = ledger.seats.guests
        self._ledger = ledger
        self.version = ledger.version
        self.tenants: Tenants = ledger.tenants
        self.device_count = ledger.device_count
        self.changes = changes
        """What has happened to jobs since the policy last looked; indexes live on it. Void when the version is new."""

    @property
    def jobs_waiting(self) -> int:
        return len(self.jobs) - len(self.running) - self._ledger.jobs_held

    @property
    def has_exceptions(self) -> bool:
        """Whether live jobs are bound to devices or CPU cores, or have a priority."""
        return self._ledger.exceptions > 0

    def last_granted(self) -> Iterator[Job]:
        """The running jobs; those that were granted their devices last come first."""
        return reversed(self._ledger.running.values())

    def devices_kind(self, allocation: Allocation) -> tuple[str, int]:
        """The device type of an allocation, and over how many nodes it is spread."""
        return self._ledger.devices.kind_of(allocation)

    # ---- sharing

    def holders(self) -> dict[Device, Job]:
        """The holder of each device that is held."""
        return sharing.holders(self._ledger)

    def members_on(self, device: Device, held: Mapping[Device, Job]) -> list[tuple[Job, int]]:
        """The jobs that compute on a device, each with its lane: the holder first, then the guests."""
        return sharing.members_on(self._ledger, device, held)

    def fits(self, device: Device, jobs: Sequence[tuple[Job, int]]) -> bool:
        """Whether these jobs, each with its lane, may be together on a device."""
        return sharing.fits(self._ledger, device, jobs)

    def within_bounds(self, offers: Sequence[Offer], leaving: Container[str]) -> list[Offer]:
        """The offers, in order, that respect the CPU cores of hosts and the devices that jobs name."""
        return sharing.within_bounds(self._ledger, offers, leaving)

    # ---- devices and CPU cores that jobs are bound to

    def cpus_left(self, *, with_guests: bool = True) -> dict[str, int]:
        """By host, the CPU cores that no holder has declared to need, nor any guest."""
        return bounds.cpus_left(self._ledger, with_guests=with_guests)

    def admits(self, spec: JobSpec, allocation: Allocation) -> bool:
        """Whether a job could compute on these devices: it names no others, and CPU cores are left for it."""
        return bounds.admits(self._ledger, self.cpus_left(), spec, allocation)


class Decider(Protocol):
    """What every policy has; `weft.core.policy_base` has the rest of what the scheduler asks, with defaults."""

    def decide(self, view: View) -> Plan: ...

    def explain(self, view: View, job: Job) -> Reason: ...
