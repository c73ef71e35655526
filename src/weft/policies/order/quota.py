"""Quotas and classes around any order by keys: guaranteed jobs go before opportunistic ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note
from weft.core.text import duration_text
from weft.core.transitions import State
from weft.core.values import EPSILON_S, JobClass
from weft.core.view import View
from weft.policies.base import Key
from weft.policies.order.keyed import KeyedOrder

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
        """The jobs that the last look has charged, and that were there before."""
        self._used: dict[str, int] = {}
        self._lacking: dict[str, dict[str, Job]] = {}
        """By tenant, those that can only wait for quota, by arrival."""
        self._version = -1

    def __bool__(self) -> bool:
        return bool(self.devices)

    def could_hold(self, job: Job) -> bool:
        """Whether its gang fits if no other job is charged."""
        return job.gang_size <= self.devices.get(job.tenant, 0)

    def used(self, tenant: str) -> int:
        return self._used.get(tenant, 0)

    def learn(self, view: View) -> bool:
        """True if the class of a job that was there before has changed."""
        self.upgraded = []
        if view.tenants.quotas != self.devices:
            self._begin(view)
            return True
        if not self.devices:
            return False
        if view.version != self._version:  # changes may be missing, as after a decision that failed
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
        """A charged job stays charged while it is live."""
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
    """A job held by its owner, or for another job, has no claim on anything before it is released: it might wait for
    the very one that waits for its quota. One that is tried again after a while goes on as it was."""
    return job.state is not State.HELD or job.held_for == {Code.BACKING_OFF}


# ---- Quotas and classes around any keyed order: guaranteed jobs go before those that use what is left.

GUARANTEED_FIRST, OPPORTUNISTIC_LAST = 0, 1


@dataclass
class QuotaClasses(KeyedOrder):
    """A job that is not opportunistic is charged to its tenant's quota when it comes, if the quota has room for its
    gang, and is guaranteed from then to its end. One that asked to be guaranteed waits for that; one that left it to
    us is like an opportunistic one after `convert_after_s` of waiting, or at once if the quota could never hold it.
    When quota frees, the first that came is charged. With no quotas all are peers, but for those that are opportunistic
    by their own request.

    A gang that is charged and does not fit has devices reserved: see `Reservations`.
    """

    inner: KeyedOrder
    convert_after_s: float = 0.0
    quotas: Quotas = field(default_factory=Quotas, init=False, repr=False)

    preempts = True
    heeds_classes = True

    def __post_init__(self) -> None:
        if not self.convert_after_s >= 0:
            raise InputError(f"convert_after_s {self.convert_after_s:g} is not 0 or more", "0 converts at once")
        self.rule = f"guaranteed jobs first; then {self.inner.rule}"
        self.drifts = self.inner.drifts
        self.returns_home = self.inner.returns_home
        self.heeds_measures = self.inner.heeds_measures
        self.may_block = self.inner.may_block
        self.blockers_come_first = self.inner.blockers_come_first
        self._converted: set[str] = set()
        self._upgraded: dict[str, int] = {}
        """Those charged while they ran, with their lease of then."""
        self._notes: list[Note] = []

    @property
    def charged(self) -> Mapping[str, int]:
        """The gangs that are charged to a quota, by job."""
        return self.quotas.charged

    def class_rank(self, job: Job) -> int:
        if job.spec.job_class is JobClass.OPPORTUNISTIC:
            return OPPORTUNISTIC_LAST
        if not self.quotas or job.id in self.quotas.charged or job.spec.job_class is JobClass.GUARANTEED:
            return GUARANTEED_FIRST
        return OPPORTUNISTIC_LAST if job.generation or job.id in self._converted else GUARANTEED_FIRST

    def is_guaranteed(self, job: Job) -> bool:
        return job.id in self.quotas.charged

    def may_be_moved_for(self, job: Job, other: Job) -> bool:
        """A guaranteed job is moved only for another guaranteed job."""
        return not self.is_guaranteed(job) or self.is_guaranteed(other)

    def may_sit(self, job: Job) -> bool:
        """Whether it may use what others leave idle: not if that is not what its owner asked for, or not yet."""
        return job.spec.job_class is not JobClass.GUARANTEED and not self.is_barred(job)

    # ---- as an order

    def key(self, job: Job, now: float) -> Key:
        """Where the order itself never preempts, of two jobs of one class the one that runs goes first.

        But one that got its devices as an opportunistic job does not precede an older guaranteed job that waits.
        """
        class_rank = self.class_rank(job)
        if self.inner.preempts:
            return (class_rank, *self.inner.key(job, now))
        has_precedence = job.is_running and self._upgraded.get(job.id) != job.generation
        return (class_rank, not has_precedence, *self.inner.key(job, now))

    def blocks(self, job: Job, now: float) -> bool:
        return self.inner.blocks(job, now) and not self.is_barred(job)

    def is_barred(self, job: Job) -> bool:
        """It waits for quota."""
        is_uncharged = bool(self.quotas) and job.id not in self.quotas.charged
        return is_uncharged and job.is_waiting and self.class_rank(job) == GUARANTEED_FIRST

    def why_barred(self, job: Job) -> Reason | None:
        if not self.is_barred(job):
            return None
        quota, used = self.quotas.devices.get(job.tenant, 0), self.quotas.used(job.tenant)
        is_auto = job.spec.job_class is JobClass.AUTO
        otherwise = f"; opportunistic after {duration_text(self._patience_s(job))} of waiting" if is_auto else ""
        return Reason(Code.NEEDS_QUOTA, (job.gang_size, job.tenant, quota, used, otherwise))

    def is_owed(self, job: Job) -> bool:
        """Where there are quotas, only charged jobs; else the others would come before those in the end."""
        return self.class_rank(job) == GUARANTEED_FIRST and not self.is_barred(job)

    def reserves(self, job: Job) -> bool:
        return job.gang_size > 1 and job.id in self.quotas.charged

    def heeds_reservations(self, job: Job) -> bool:
        """A job that may be evicted by those before it gives back what it holds, once its minimum run time is over."""
        return job.spec.min_run_s > 0 or (not self.inner.preempts and self.class_rank(job) == GUARANTEED_FIRST)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        inner = self.inner.changes_at(job, now, is_running)
        if is_running or job.spec.job_class is not JobClass.AUTO or not self.is_barred(job):
            return inner
        return min(inner, now + self._patience_s(job) - job.wait_s(now))

    def touch(self, job: Job, now: float) -> None:
        self.inner.touch(job, now)
        if job.spec.job_class is JobClass.AUTO and self.is_barred(job):
            patience_s = self._patience_s(job)
            if job.wait_s(now) + EPSILON_S >= patience_s:
                self._converted.add(job.id)
                if patience_s:
                    self._notes.append(Note(job.id, Reason(Code.CONVERTED, (duration_text(patience_s),))))

    def learn(self, view: View) -> bool:
        self._notes = []
        self._forget_who_is_gone(view)
        moved = self.quotas.learn(view)
        self.may_reserve = bool(self.quotas)
        for job in self.quotas.upgraded:
            if job.is_running:
                self._upgraded[job.id] = job.generation
            if job.spec.job_class is JobClass.AUTO:
                self._notes.append(Note(job.id, Reason(Code.UPGRADED)))
        return self.inner.learn(view) or moved

    def notes(self) -> Sequence[Note]:
        return self._notes

    def recall(self, services: Iterable[float]) -> None:
        self.inner.recall(services)

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        return self.inner.look_again_at(now, jobs_waiting)

    def _patience_s(self, job: Job) -> float:
        """How long it waits for quota. There is no point in it if no quota could ever hold its gang."""
        return self.convert_after_s if self.quotas.could_hold(job) else 0.0

    def _forget_who_is_gone(self, view: View) -> None:
        if self._converted or self._upgraded:
            for change, job in view.changes:
                if change is Change.LEFT and job.id not in view.jobs:
                    self._converted.discard(job.id)
                    self._upgraded.pop(job.id, None)
