"""The five stages of which a policy is composed: admit → order → match → place → share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.reasons import Code, Reason
from weft.core.sharing import Note, Sharing
from weft.core.value import value
from weft.core.values import JobSpec
from weft.core.view import View
from weft.policies.plan.node_groups import NodeGroup

if TYPE_CHECKING:
    from weft.policies.plan.draft import Draft


Key = tuple[Any, ...]
"""Smaller goes first. Unique, because it ends with the job's tie."""


class Admit(Protocol):
    """Which tenants may compete for devices in this decision."""

    def rounds(self, view: View) -> Iterable[frozenset[str] | None]:
        """The tenants admitted in each round, ever wider while devices stay free; None admits everybody."""
        ...


class Order(Protocol):
    """Who goes first."""

    rule: str
    """The same in a few words, for whoever asks why a job waits."""
    preempts: bool
    """Whether running jobs stand in the line too and lose their devices to those before them."""
    heeds_priorities: bool
    """Whether the line has a tenant's jobs by priority already; if not, `priority` sees to that."""

    def prepare(self, view: View) -> None:
        """Take note of what has changed. Called once for each decision, before everything else."""
        ...

    def line(self, view: View, draft: Draft, admitted: frozenset[str] | None) -> Iterable[Job]:
        """The jobs in order. It may look at the draft while it is read, to see who got what so far."""
        ...

    def eviction_line(self, view: View) -> list[Job]:
        """The running jobs, those that are to go first last."""
        ...

    def blocks(self, job: Job, now: float) -> bool:
        """Whether nobody behind this job may start while it waits, if the devices that are there could hold it."""
        ...

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        """Whether a waiting job may take the devices of a running one."""
        ...

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        """Why a waiting job may not start even where it fits; None if only devices are lacking.

        `could_hold` says of a job whether it fits if nobody else holds anything: who does not is not waited for.
        """
        ...

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        """When to look again if nothing happens, with these jobs running and so many waiting from now on."""
        ...

    def rank(self, view: View, job: Job) -> Key:
        """Where a waiting job stands among those that wait, as far as that can be said of one alone."""
        ...

    def recall(self, services: Iterable[float]) -> None:
        """Learn from the device-seconds that jobs before its time needed, if it learns."""
        ...


class KeyedOrder:
    """An order by a key per job: derive from this, write `key`, and the fast line does the rest."""

    rule = "by a key of its own"
    preempts = False
    heeds_priorities = False
    drifts = False
    """Whether keys of running jobs move with time, so that they must be ranked anew at each decision."""
    may_block = False
    """Whether `blocks` is ever true; set by itself for a class that defines `blocks`."""
    blockers_come_first = False
    """Whether every job that blocks stands before all that do not: without it the line cannot be kept quickly."""
    heeds_measures = False
    """Whether what is measured of a job may change its key at that instant."""
    heeds_classes = False
    """Whether tenants' quotas, and jobs' classes, count."""
    returns_home = False
    """Whether a job rather goes on where it ran last, where it may still be in memory, than anywhere else."""
    is_moved_by_eviction = True
    """Whether losing its devices may change a job's key at that instant; say no if you can, it saves work."""
    may_reserve = False
    """Whether `is_barred` or `reserves` may be true as things are: it may change whenever `learn` says true."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "blocks" in vars(cls) and "may_block" not in vars(cls):
            cls.may_block = True

    def key(self, job: Job, now: float) -> Key:
        """Its rank now: a tuple that ends with `job.tie`.

        A waiting job's key stays until `changes_at`; a running one's too, unless it drifts.
        """
        raise NotImplementedError

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        """When its key will change by itself, if it keeps running (or waiting) from now on."""
        return math.inf

    def is_guaranteed(self, job: Job) -> bool:
        """Whether it is charged to a quota: only then somebody has a right to run as if alone."""
        return False

    def touch(self, job: Job, now: float) -> None:
        """Its time to change may have come: the place for an order to take note before the key is read."""

    def learn(self, view: View) -> bool:
        """Look at what has changed; true if keys are not what they were."""
        return False

    def blocks(self, job: Job, now: float) -> bool:
        return False

    def is_barred(self, job: Job) -> bool:
        """Whether a waiting job may not start, whatever is free. It stands in the line all the same."""
        return False

    def why_barred(self, job: Job) -> Reason | None:
        """The same in words; None if it is not."""
        return None

    def is_owed(self, job: Job) -> bool:
        """Whether a bound on bypass is for it: not for one that is barred.

        It may change whenever `learn` says true.
        """
        return not self.is_barred(job)

    def reserves(self, job: Job) -> bool:
        """Whether devices are kept for this gang, as they become free, while there are not enough of them."""
        return False

    def heeds_reservations(self, job: Job) -> bool:
        """Whether devices kept for a gang before it are not for this job: it would not give them back when asked."""
        return False

    def notes(self) -> Sequence[Note]:
        """What is to be told of jobs since `learn` was last called, though it changes nothing for others."""
        return ()

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        return self.key(job, now) < self.key(other, now)

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        return self.why_behind(view, job, could_hold, view.jobs.values())

    def why_behind(
        self, view: View, job: Job, could_hold: Callable[[Job], bool], candidates: Iterable[Job]
    ) -> Reason | None:
        """The same, if among the jobs that block the first one is a candidate."""
        barred = self.why_barred(job)
        if barred is not None:
            return barred
        key, now = self.key(job, view.now), view.now
        waiting = [other for other in candidates if _in_line(other, False) and self.blocks(other, now)]
        ahead = sorted((one, other) for other in waiting if (one := self.key(other, now)) < key)
        head = next((other for _, other in ahead if could_hold(other)), None)
        return None if head is None else Reason(Code.BEHIND_HEAD, (head.id, head.gang_size))

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        """When to decide again though no key changes by itself: the end of a quantum."""
        return math.inf

    def prepare(self, view: View) -> None:
        self.learn(view)
        for job in view.jobs.values():
            if _in_line(job, True):
                self.touch(job, view.now)

    def line(self, view: View, draft: Draft, admitted: frozenset[str] | None) -> list[Job]:
        """The line from scratch: look at every job that may start, sort by key."""
        now = view.now
        jobs = [job for job in view.jobs.values() if _in_line(job, self.preempts)]
        if self.may_reserve:
            jobs = [job for job in jobs if job.is_running or not self.is_barred(job)]
        return sorted(jobs, key=lambda job: self.key(job, now))

    def rank(self, view: View, job: Job) -> Key:
        return self.key(job, view.now)

    def recall(self, services: Iterable[float]) -> None:
        """There is nothing to learn."""

    def eviction_line(self, view: View) -> list[Job]:
        now = view.now
        return sorted(view.running.values(), key=lambda job: self.key(job, now))

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        """From scratch: the first time at which any key changes."""
        now = view.now
        live = (job for job in view.jobs.values() if _in_line(job, True))
        change_at = min((later(self.changes_at(job, now, job.id in running), now) for job in live), default=math.inf)
        return min(change_at, self.look_again_at(now, jobs_waiting))


def later(time_s: float, now: float) -> float:
    """A time after now: rounding must not make a policy wake up at the instant it is in, for ever."""
    return time_s if time_s > now else math.nextafter(now, math.inf)


def _in_line(job: Job, with_running: bool) -> bool:
    return job.is_waiting or (with_running and job.is_running)


class Match(Protocol):
    """Which device types a job is to use."""

    is_static: ClassVar[bool]
    """Whether every job may start, on types that depend on nothing but the types and rates of its description."""

    def pairs(self, view: View, draft: Draft, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
        """Each job of the line that may start, with the types it may start on, best first."""
        ...

    def types(self, spec: JobSpec, present: Sequence[str]) -> tuple[str, ...]:
        """Those of the types present that a job may use at all, best first."""
        ...


class Placer(Protocol):
    """Which nodes. Whether a job fits may only get truer with more free devices: the lines rely on it."""

    def shape(self, spec: JobSpec) -> object:
        """Jobs of equal shape and gang size fit wherever one of them does."""
        ...

    def choose(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Placement | None:
        """Where among these nodes, all of one type, given the free devices of each (indexed by node), or None."""
        ...

    def refusal(self, spec: JobSpec, group: NodeGroup, free: Sequence[int]) -> Reason:
        """Why `choose` says None."""
        ...


class Sharer(Protocol):
    """Who may compute on devices that it does not hold, beside whom, and under which rule."""

    def seat(self, view: View) -> Sharing:
        """Asked at each decision, when it is clear who holds what."""
        ...

    def turns_of(self, job: Job, now: float) -> Turns:
        """In which lane of the devices it is granted a job is to take turns with guests, and how."""
        ...


@value
class Turns:
    """A lane, and whose turn it is there: whose base + weight × time used is the least."""

    lane: int = 0
    base: int = 0
    weight: int = 1


NO_LANE = Turns()


# ---- Everybody may compete.


@dataclass(frozen=True)
class Everyone:
    def rounds(self, view: View) -> tuple[None]:
        return (None,)
