"""Everything a policy may look at, at one instant. Read-only by contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from weft.core.job import Job
from weft.core.ledger import Change, Ledger
from weft.core.plan import Plan
from weft.core.reasons import Reason
from weft.core.sharing import Device
from weft.core.tenants import Tenants
from weft.core.values import Node


class View:
    """The ledger as a policy sees it, at `now`."""

    __slots__ = (
        "_jobs_held",
        "blocked_masks",
        "changes",
        "device_count",
        "free_counts",
        "free_masks",
        "guests",
        "is_present",
        "jobs",
        "ledger",
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
        self.ledger = ledger
        """For the questions of core.sharing, which take it whole."""
        self.version = ledger.version
        self.tenants: Tenants = ledger.tenants
        self.device_count = ledger.device_count
        self._jobs_held = ledger.jobs_held
        self.changes = changes
        """What has happened to jobs since the policy last looked; indexes live on it. Void when the version is new."""

    @property
    def jobs_waiting(self) -> int:
        return len(self.jobs) - len(self.running) - self._jobs_held


class Decider(Protocol):
    """What the scheduler asks of a policy. One that lets a waiting job go unexplained is wrong."""

    def decide(self, view: View) -> Plan: ...

    def explain(self, view: View, job: Job) -> Reason: ...
