"""Attained service per tenant, kept up to date without visiting every job."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from weft.core.job import Job


class _Account:
    __slots__ = ("devices_held", "guest_devices", "settled", "since_s")

    def __init__(self) -> None:
        self.settled = 0.0
        self.since_s = 0.0
        self.devices_held = 0
        self.guest_devices = 0.0  # its guests' parts of devices that it does not hold, together

    def attained(self, now: float) -> float:
        return self.settled + (self.devices_held + self.guest_devices) * (now - self.since_s)

    def settle(self, now: float) -> None:
        self.settled += (self.devices_held + self.guest_devices) * (now - self.since_s)
        self.since_s = now


class Tenants:
    """What each tenant holds now and has had. A tenant is known from its first job on."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self.quotas: Mapping[str, int] = {}
        """Devices for guaranteed jobs, by tenant, as the driver has set them; empty if there are no quotas at all."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._accounts)

    def attained(self, tenant: str, now: float) -> float:
        """Device-seconds that all its jobs have had, held or as guests, finished ones too."""
        return self._accounts[tenant].attained(now)

    def devices_held(self, tenant: str) -> int:
        return self._accounts[tenant].devices_held

    def join(self, tenant: str) -> None:
        if tenant not in self._accounts:
            self._accounts[tenant] = _Account()

    def widen(self, tenant: str, devices: int, now: float) -> None:
        """From now on the tenant holds so many devices more (or fewer)."""
        account = self._accounts[tenant]
        account.settle(now)
        account.devices_held += devices

    def seat(self, tenant: str, devices: float, now: float) -> None:
        """From now on its guests have so much more (or less) of devices that it does not hold."""
        account = self._accounts[tenant]
        account.settle(now)
        account.guest_devices += devices

    def settled(self) -> dict[str, tuple[float, float]]:
        """What each tenant had had when what it uses last changed, and when that was."""
        return {tenant: (account.settled, account.since_s) for tenant, account in self._accounts.items()}

    def restore(self, tenant: str, settled: float, since_s: float) -> None:
        account = self._accounts[tenant] = _Account()
        account.settled, account.since_s = settled, since_s

    def resume(self, job: Job) -> None:
        """One of its jobs has computed as it does since what was restored of the tenant."""
        account = self._accounts[job.tenant]
        if job.is_running:
            account.devices_held += job.gang_size
        else:
            account.guest_devices += job.gang_size * job.speed

    def validate(self, jobs: Iterable[Job]) -> None:
        held = dict.fromkeys(self._accounts, 0)
        seated = dict.fromkeys(self._accounts, 0.0)
        for job in jobs:
            held[job.tenant] += job.gang_size if job.is_running else 0
            seated[job.tenant] += job.gang_size * job.speed if job.seating else 0.0
        assert held == {tenant: account.devices_held for tenant, account in self._accounts.items()}
        for tenant, account in self._accounts.items():
            assert math.isclose(account.guest_devices, seated[tenant], abs_tol=1e-6), f"{tenant}: {seated}"
