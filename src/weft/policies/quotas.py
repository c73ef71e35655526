"""Which jobs are charged to their tenants' quotas: by arrival, from when there is room for a gang to its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code
from weft.core.transitions import State
from weft.core.values import JobClass
from weft.core.view import View

GUARANTEED, OPPORTUNISTIC = JobClass.GUARANTEED, JobClass.OPPORTUNISTIC

PATIENCE_S = 86_400.0
"""So long may later jobs of its tenant be charged before a job that can only wait for quota."""


class Quotas:
    """What does not fit is passed by. But of a gang that asked to be guaranteed, and can only wait, the small jobs of
    its own tenant might use up the quota for ever: after a day they are not charged before it any more.
    """

    def __init__(self) -> None:
        self.devices: Mapping[str, int] = {}
        """By tenant; empty if there are no quotas at all."""
        self.charged: dict[str, int] = {}
        """The gangs that are charged, by job."""
        self.upgraded: list[Job] = []
        """Who has been charged by the last look, and was there before."""
        self._used: dict[str, int] = {}
        self._lacking: dict[str, dict[str, Job]] = {}
        """By tenant, those that can only wait for quota, by arrival."""
        self._version = -1

    def __bool__(self) -> bool:
        return bool(self.devices)

    def could_hold(self, job: Job) -> bool:
        """Whether its gang fits if nobody else is charged."""
        return job.gang_size <= self.devices.get(job.tenant, 0)

    def used(self, tenant: str) -> int:
        return self._used.get(tenant, 0)

    def learn(self, view: View) -> bool:
        """True if somebody who was there before stands differently now."""
        self.upgraded = []
        if view.tenants.quotas != self.devices:
            self._begin(view)
            return True
        if not self.devices:
            return False
        if view.version != self._version:  # what has changed since may not be told, as after a decision that failed
            self._version = view.version
            self.upgraded = self._charge_anew(view)
        elif view.changes:
            self.upgraded = self._catch_up(view)
        return bool(self.upgraded)

    def _begin(self, view: View) -> None:
        """New quotas. What runs and must not be opportunistic keeps its right, even beyond them."""
        self.devices = dict(view.tenants.quotas)
        self._version = view.version
        running = view.running.values() if self.devices else ()
        self.charged = {job.id: job.gang_size for job in running if job.spec.job_class is GUARANTEED}
        self._charge_anew(view)

    def _catch_up(self, view: View) -> list[Job]:
        left = [job for change, job in view.changes if change is Change.LEFT]
        gone = [job for job in left if job.id not in view.jobs or not _may_be_charged(job)]
        for job in gone:
            self._used[job.tenant] = self.used(job.tenant) - self.charged.pop(job.id, 0)
            self._lacking.get(job.tenant, {}).pop(job.id, None)
        tenants = {job.tenant for job in gone}
        upgraded = self._charge([job for job in view.jobs.values() if job.tenant in tenants], view.now) if gone else []
        come = {job.id: job for change, job in view.changes if change is Change.QUEUED and job.id in view.jobs}
        self._charge(come.values(), view.now)
        return [job for job in upgraded if job.id not in come]

    def _charge_anew(self, view: View) -> list[Job]:
        """Who is charged stays so, if it is still there."""
        live = {job_id: job for job_id in self.charged if (job := view.jobs.get(job_id)) and _may_be_charged(job)}
        self.charged = {job_id: self.charged[job_id] for job_id in live}
        self._used, self._lacking = {}, {}
        for job_id, gang_size in self.charged.items():
            tenant = view.jobs[job_id].tenant
            self._used[tenant] = self.used(tenant) + gang_size
        return self._charge(view.jobs.values(), view.now)

    def _charge(self, jobs: Iterable[Job], now: float) -> list[Job]:
        newly = []
        for job in jobs:
            if job.spec.job_class is OPPORTUNISTIC or job.id in self.charged or not self.could_hold(job):
                continue
            if not _may_be_charged(job):
                continue
            tenant, used = job.tenant, self.used(job.tenant)
            if used + job.gang_size <= self.devices[tenant] and not self._must_wait(job, now):
                self.charged[job.id] = job.gang_size
                self._used[tenant] = used + job.gang_size
                self._lacking.get(tenant, {}).pop(job.id, None)
                newly.append(job)
            elif job.spec.job_class is GUARANTEED:
                self._lacking.setdefault(tenant, {})[job.id] = job
        return newly

    def _must_wait(self, job: Job, now: float) -> bool:
        """Whether one of its tenant that came before it has waited for quota so long that it comes first."""
        others = self._lacking.get(job.tenant, {}).values()
        first = next((one for one in others if one.is_waiting), job)
        return first.tie < job.tie and now >= first.since_s + PATIENCE_S


def _may_be_charged(job: Job) -> bool:
    """Who is held by its owner, or for another job, has no claim on anything before it is released: it might wait for
    the very one that waits for its quota. One that is tried again after a while goes on as it was."""
    return job.state is not State.HELD or job.held_for == {Code.BACKING_OFF}
