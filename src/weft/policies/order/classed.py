"""Quotas and classes around any order by keys: who is guaranteed goes before who uses what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.values import JobClass
from weft.core.view import View
from weft.policies.stages import Key, KeyedOrder

GUARANTEED, OPPORTUNISTIC = 0, 1


@dataclass
class Classed(KeyedOrder):
    """A job that is not opportunistic is charged to its tenant's quota when it comes, if the quota has room for its
    gang, and is guaranteed from then to its end. Others are like opportunistic ones until quota frees; then the first
    that came is charged. With no quotas all are peers, but for those that are opportunistic by their own wish.
    """

    inner: KeyedOrder
    charged: dict[str, int] = field(default_factory=dict, init=False, repr=False)
    """The gangs that are charged to a quota, by job."""

    preempts = True

    def __post_init__(self) -> None:
        self.rule = f"guaranteed jobs first; then {self.inner.rule}"
        self.drifts = self.inner.drifts
        self.returns_home = self.inner.returns_home
        self.heeds_measures = self.inner.heeds_measures
        self.may_block = self.inner.may_block
        self.blockers_come_first = self.inner.blockers_come_first
        self._quotas: Mapping[str, int] = {}
        self._used: dict[str, int] = {}
        self._version = -1

    def standing(self, job: Job) -> int:
        if job.spec.job_class is JobClass.OPPORTUNISTIC:
            return OPPORTUNISTIC
        return GUARANTEED if not self._quotas or job.id in self.charged else OPPORTUNISTIC

    def is_guaranteed(self, job: Job) -> bool:
        """Whether it is charged to a quota: only then somebody has a right to run as if alone."""
        return job.id in self.charged

    def key(self, job: Job, now: float) -> Key:
        """Where the order itself preempts nobody, of two jobs of one standing the one that runs goes first."""
        standing = self.standing(job)
        if self.inner.preempts:
            return (standing, *self.inner.key(job, now))
        return (standing, not job.is_running, *self.inner.key(job, now))

    def blocks(self, job: Job, now: float) -> bool:
        return self.inner.blocks(job, now)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        return self.inner.changes_at(job, now, is_running)

    def touch(self, job: Job, now: float) -> None:
        self.inner.touch(job, now)

    def learn(self, view: View) -> bool:
        moved = self._recharge(view)
        return self.inner.learn(view) or moved

    def recall(self, services: Iterable[float]) -> None:
        self.inner.recall(services)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return self.inner.look_again_at(now, jobs_waiting)

    def _recharge(self, view: View) -> bool:
        """True if somebody who was there before stands differently now."""
        if not view.tenants.quotas and not self._quotas:
            return False
        if view.tenants.quotas != self._quotas:
            self._quotas = dict(view.tenants.quotas)
            self.charged, self._used = {}, {}
            self._charge(view.jobs.values())
            return True
        if view.version != self._version:  # what has changed since may not be told, as after a decision that failed
            self._version = view.version
            return self._charge_anew(view)
        freed = [job for change, job in view.changes if change is Change.LEFT and job.id not in view.jobs]
        for job in freed:
            self._used[job.tenant] = self._used.get(job.tenant, 0) - self.charged.pop(job.id, 0)
        self._charge(job for change, job in view.changes if change is Change.QUEUED and job.id in view.jobs)
        tenants = {job.tenant for job in freed}
        return bool(tenants) and self._charge(job for job in view.jobs.values() if job.tenant in tenants)

    def _charge_anew(self, view: View) -> bool:
        """Who is charged stays so, if it is still there."""
        self.charged = {job_id: gang_size for job_id, gang_size in self.charged.items() if job_id in view.jobs}
        self._used = {}
        for job_id, gang_size in self.charged.items():
            tenant = view.jobs[job_id].tenant
            self._used[tenant] = self._used.get(tenant, 0) + gang_size
        return self._charge(view.jobs.values())

    def _charge(self, jobs: Iterable[Job]) -> bool:
        has_charged = False
        for job in jobs:
            used = self._used.get(job.tenant, 0)
            is_asking = job.spec.job_class is not JobClass.OPPORTUNISTIC and job.id not in self.charged
            if is_asking and used + job.gang_size <= self._quotas.get(job.tenant, 0):
                self.charged[job.id] = job.gang_size
                self._used[job.tenant] = used + job.gang_size
                has_charged = True
        return has_charged
