"""Attained service per tenant, kept up to date without visiting every job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from weft.core.job import Job


class _Account:
    __slots__ = ("devices_held", "jobs_live", "settled", "since_s")

    def __init__(self) -> None:
        self.settled = 0.0
        self.since_s = 0.0
        self.devices_held = 0
        self.jobs_live = 0


class Tenants:
    """What each tenant holds now and has had. A tenant is known from its first job on."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self.quotas: Mapping[str, int] = {}
        """Devices for guaranteed jobs, by tenant, as the driver has set them; empty if there are no quotas at all."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._accounts)

    def attained(self, tenant: str, now: float) -> float:
        """Device-seconds that all its jobs have had, finished ones too."""
        account = self._accounts[tenant]
        return account.settled + account.devices_held * (now - account.since_s)

    def devices_held(self, tenant: str) -> int:
        return self._accounts[tenant].devices_held

    def has_live_jobs(self, tenant: str) -> bool:
        return self._accounts[tenant].jobs_live > 0

    def join(self, tenant: str) -> None:
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = _Account()
        account.jobs_live += 1

    def leave(self, tenant: str) -> None:
        self._accounts[tenant].jobs_live -= 1

    def widen(self, tenant: str, devices: int, now: float) -> None:
        """From now on the tenant holds so many devices more (or fewer)."""
        account = self._accounts[tenant]
        account.settled += account.devices_held * (now - account.since_s)
        account.since_s = now
        account.devices_held += devices

    def settled(self) -> dict[str, tuple[float, float]]:
        """What each tenant had had when its holdings last changed, and when that was."""
        return {tenant: (account.settled, account.since_s) for tenant, account in self._accounts.items()}

    def restore(self, tenant: str, settled: float, since_s: float) -> None:
        account = self._accounts[tenant] = _Account()
        account.settled, account.since_s = settled, since_s

    def hold(self, tenant: str, devices: int) -> None:
        """It has held so many devices more since what was restored of it."""
        self._accounts[tenant].devices_held += devices

    def validate(self, jobs: Iterable[Job]) -> None:
        held = dict.fromkeys(self._accounts, 0)
        live = dict.fromkeys(self._accounts, 0)
        for job in jobs:
            live[job.tenant] += 1
            held[job.tenant] += job.gang_size if job.is_running else 0
        assert held == {tenant: account.devices_held for tenant, account in self._accounts.items()}
        assert live == {tenant: account.jobs_live for tenant, account in self._accounts.items()}
