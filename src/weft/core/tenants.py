"""Attained service per tenant, kept up to date without visiting every job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from weft.core.job import Job


class _Account:
    __slots__ = ("devices_held", "excused", "guest_devices", "settled", "since_s")

    def __init__(self) -> None:
        self.settled = 0.0
        self.since_s = 0.0
        self.devices_held = 0
        self.guest_devices = 0.0  # its guests' shares of devices that it does not hold, summed
        self.excused: dict[str, tuple[float, float]] = {}  # jobs starting up: devices, latest end of it

    def attained(self, now: float) -> float:
        attained = self.settled + (self.devices_held + self.guest_devices) * (now - self.since_s)
        return attained - self._excused(now) if self.excused else attained

    def settle(self, now: float) -> None:
        self.settled, self.since_s = self.attained(now), now
        if self.excused:
            self.excused = {job_id: each for job_id, each in self.excused.items() if each[1] > now}

    def _excused(self, now: float) -> float:
        """Device-seconds that its jobs have held since the last change without being charged."""
        return sum(devices * max(0.0, min(now, until_s) - self.since_s) for devices, until_s in self.excused.values())


class Tenants:
    """What each tenant holds, and its attained service. A tenant is known from its first job on."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self.quotas: Mapping[str, int] = {}
        """Devices for guaranteed jobs, by tenant, as set by the driver; empty without quotas."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._accounts)

    def attained(self, tenant: str, now: float) -> float:
        """Device-seconds of all its jobs, as holders and as guests, finished jobs included."""
        return self._accounts[tenant].attained(now)

    def devices_held(self, tenant: str) -> int:
        return self._accounts[tenant].devices_held

    def join(self, tenant: str) -> None:
        if tenant not in self._accounts:
            self._accounts[tenant] = _Account()

    def widen(self, tenant: str, devices: int, now: float) -> None:
        """Change the number of devices that the tenant holds, from now on."""
        account = self._accounts[tenant]
        account.settle(now)
        account.devices_held += devices

    def seat(self, tenant: str, devices: float, now: float) -> None:
        """Change its guests' share of devices that it does not hold, from now on."""
        account = self._accounts[tenant]
        account.settle(now)
        account.guest_devices += devices

    def excuse(self, job: Job, now: float) -> None:
        """Stop or resume charging the tenant for this job: a job is not charged while it starts up."""
        account = self._accounts[job.tenant]
        if job.is_starting(now):
            account.settle(now)
            account.excused[job.id] = (job.gang_size * job.speed, job.served_from_s)
        elif job.id in account.excused:
            account.settle(now)
            account.excused.pop(job.id, None)

    def settled(self) -> dict[str, tuple[float, float]]:
        """Each tenant's attained service at its last change of use, and the time of that change."""
        return {tenant: (account.settled, account.since_s) for tenant, account in self._accounts.items()}

    def restore(self, tenant: str, settled: float, since_s: float) -> None:
        account = self._accounts[tenant] = _Account()
        account.settled, account.since_s = settled, since_s

    def resume(self, job: Job) -> None:
        """Add the use of a restored job, unchanged since the tenant was restored."""
        account = self._accounts[job.tenant]
        if job.is_running:
            account.devices_held += job.gang_size
        else:
            account.guest_devices += job.gang_size * job.speed
        if job.served_from_s > account.since_s and job.speed:
            account.excused[job.id] = (job.gang_size * job.speed, job.served_from_s)

    def validate(self, jobs: Iterable[Job]) -> None:
        held = dict.fromkeys(self._accounts, 0)
        seated = dict.fromkeys(self._accounts, 0.0)
        for job in jobs:
            held[job.tenant] += job.gang_size if job.is_running else 0
            seated[job.tenant] += job.gang_size * job.speed if job.seating else 0.0
        assert held == {tenant: account.devices_held for tenant, account in self._accounts.items()}
        for tenant, account in self._accounts.items():
            assert math.isclose(account.guest_devices, seated[tenant], abs_tol=1e-6), f"{tenant}: {seated}"
