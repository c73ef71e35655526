"""Quotas and classes around any order by keys: who is guaranteed goes before who uses what is left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note
from weft.core.values import EPSILON_S, JobClass
from weft.core.view import View
from weft.core.words import span
from weft.policies.quotas import Quotas
from weft.policies.stages import Key, KeyedOrder

GUARANTEED, OPPORTUNISTIC = 0, 1


@dataclass
class Classed(KeyedOrder):
    """A job that is not opportunistic is charged to its tenant's quota when it comes, if the quota has room for its
    gang, and is guaranteed from then to its end. One that asked to be guaranteed waits for that; one that left it to
    us is like an opportunistic one after `convert_after_s` of waiting, or at once if the quota could never hold it.
    When quota frees, the first that came is charged. With no quotas all are peers, but for those that are opportunistic
    by their own wish.

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

    def standing(self, job: Job) -> int:
        if job.spec.job_class is JobClass.OPPORTUNISTIC:
            return OPPORTUNISTIC
        if not self.quotas or job.id in self.quotas.charged or job.spec.job_class is JobClass.GUARANTEED:
            return GUARANTEED
        return OPPORTUNISTIC if job.generation or job.id in self._converted else GUARANTEED

    def is_guaranteed(self, job: Job) -> bool:
        return job.id in self.quotas.charged

    def may_be_moved_for(self, job: Job, other: Job) -> bool:
        """Whoever runs as if alone is moved for nobody who does not."""
        return not self.is_guaranteed(job) or self.is_guaranteed(other)

    def may_sit(self, job: Job) -> bool:
        """Whether it may use what others leave idle: not if that is not what its owner asked for, or not yet."""
        return job.spec.job_class is not JobClass.GUARANTEED and not self.is_barred(job)

    # ---- as an order

    def key(self, job: Job, now: float) -> Key:
        """Where the order itself preempts nobody, of two jobs of one standing the one that runs goes first.

        But one that got its devices as an opportunistic job has not come before who waits by right, and came before it.
        """
        standing = self.standing(job)
        if self.inner.preempts:
            return (standing, *self.inner.key(job, now))
        has_precedence = job.is_running and self._upgraded.get(job.id) != job.generation
        return (standing, not has_precedence, *self.inner.key(job, now))

    def blocks(self, job: Job, now: float) -> bool:
        return self.inner.blocks(job, now) and not self.is_barred(job)

    def is_barred(self, job: Job) -> bool:
        """It waits for quota."""
        is_uncharged = bool(self.quotas) and job.id not in self.quotas.charged
        return is_uncharged and job.is_waiting and self.standing(job) == GUARANTEED

    def why_barred(self, job: Job) -> Reason | None:
        if not self.is_barred(job):
            return None
        quota, used = self.quotas.devices.get(job.tenant, 0), self.quotas.used(job.tenant)
        is_auto = job.spec.job_class is JobClass.AUTO
        otherwise = f"; opportunistic after {span(self._patience_s(job))} of waiting" if is_auto else ""
        return Reason(Code.NEEDS_QUOTA, (job.gang_size, job.tenant, quota, used, otherwise))

    def is_owed(self, job: Job) -> bool:
        """Where there are quotas, who is charged to one; else the others would come before those in the end."""
        return self.standing(job) == GUARANTEED and not self.is_barred(job)

    def reserves(self, job: Job) -> bool:
        return job.gang_size > 1 and job.id in self.quotas.charged

    def heeds_reservations(self, job: Job) -> bool:
        """Who is evicted by whoever goes before it gives back what it holds, once its minimum run time is over."""
        return job.spec.min_run_s > 0 or (not self.inner.preempts and self.standing(job) == GUARANTEED)

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
                    self._notes.append(Note(job.id, Reason(Code.CONVERTED, (span(patience_s),))))

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
