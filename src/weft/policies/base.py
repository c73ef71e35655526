"""The five stages of which a policy is composed: admit → order → match → place → share."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from weft.core.job import Job
from weft.core.plan import Placement
from weft.core.reasons import Reason
from weft.core.sharing import Note, Sharing
from weft.core.value import value
from weft.core.values import JobSpec
from weft.core.view import View

if TYPE_CHECKING:
    from weft.policies.plan.free_devices import NodeGroup
    from weft.policies.plan.full_scan import FullScan


Key = tuple[Any, ...]
"""Smaller goes first. Unique, because it ends with the job's tie."""


class Admit(Protocol):
    """Which tenants may compete for devices in this decision."""

    def rounds(self, view: View) -> Iterable[frozenset[str] | None]:
        """The tenants admitted in each round, ever wider while devices stay free; None admits all."""
        ...


# ---- Orders, and what an order may be able to do besides. Planners ask for these abilities by attributes with types.


class Blocking:
    """An ability of orders: a job that waits may keep all jobs behind it from starting."""

    may_block = False
    """Whether `blocks` is ever true; set by itself for a keyed order that defines `blocks`."""
    blockers_come_first = False
    """Whether every job that blocks is before all that do not: without it the line cannot be kept quickly."""

    def blocks(self, job: Job, now: float) -> bool:
        """Whether no job behind this one may start while it waits, if the devices that are there could hold it."""
        return False


class Entitlement:
    """An ability of orders: tenants' quotas, and jobs' classes, count."""

    heeds_classes = False

    def is_guaranteed(self, job: Job) -> bool:
        """Whether it is charged to a quota: only then it has a right to run as if alone."""
        return False

    def is_barred(self, job: Job) -> bool:
        """Whether a waiting job may not start, whatever is free. It keeps its place in the line."""
        return False

    def why_barred(self, job: Job) -> Reason | None:
        """Why it may not start; None if it may."""
        return None

    def is_owed(self, job: Job) -> bool:
        """Whether a bound on bypass holds for it: not while it is barred. May change whenever `learn` returns true."""
        return not self.is_barred(job)

    def notes(self) -> Sequence[Note]:
        """What has become of jobs since `learn` was last called, though it changes nothing for other jobs."""
        return ()


class Reserving:
    """An ability of orders: devices are kept for gangs as they become free."""

    may_reserve = False
    """Whether `is_barred` or `reserves` may be true as things are: it may change whenever `learn` returns true."""

    def reserves(self, job: Job) -> bool:
        """Whether devices are kept for this gang while there are not enough of them."""
        return False

    def heeds_reservations(self, job: Job) -> bool:
        """Whether the job may not use devices kept for a gang before it: it would not give them back when asked."""
        return False


class Learning:
    """An ability of orders: what happens to some jobs changes the keys of others."""

    heeds_measures = False
    """Whether what is measured of a job may change its key at that instant."""

    def learn(self, view: View) -> bool:
        """Look at what has changed; true if keys are not what they were."""
        return False

    def recall(self, services: Iterable[float]) -> None:
        """Learn from the device-seconds that earlier jobs needed."""


class QueueOrder(Blocking, Entitlement, Reserving, Learning):
    """Which job goes first. Most orders have a key per job: see `weft.policies.order.keyed`."""

    rule = ""
    """The order in a few words, as shown to users who ask why a job waits."""
    preempts = False
    """Whether running jobs are in the line too and lose their devices to jobs before them."""
    heeds_priorities = False
    """Whether the line has a tenant's jobs by priority already; if not, the planner sees to that."""
    returns_home = False
    """Whether a job rather resumes where it ran last, where it may still be in memory, than anywhere else."""

    def prepare(self, view: View) -> None:
        """Take note of what has changed. Called once for each decision, before everything else."""

    def line(self, view: View, builder: FullScan, admitted: frozenset[str] | None) -> Iterable[Job]:
        """The jobs in order. It may look at the plan while it is read, to see which job got what so far."""
        raise NotImplementedError

    def eviction_line(self, view: View) -> list[Job]:
        """The running jobs in order; the last one loses its devices first."""
        return []

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        """Whether a waiting job may take the devices of a running one."""
        return False

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        """Why a waiting job may not start even where it fits; None if only devices are lacking.

        `could_hold` says of a job whether it fits if no other holds anything: a job that does not is not waited for.
        """
        return None

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        """When to look again if nothing happens, with these jobs running and so many waiting from now on."""
        return math.inf

    def rank(self, view: View, job: Job) -> Key:
        """The place of a waiting job among those that wait, as far as it can be told from one job alone."""
        return (job.tie,)


# ---- The other stages.


class Match(Protocol):
    """Which device types a job is to use."""

    is_static: ClassVar[bool]
    """Whether every job may start, on types that depend on nothing but the types and rates of its description."""

    def pairs(self, view: View, builder: FullScan, line: Iterable[Job]) -> Iterator[tuple[Job, Sequence[str]]]:
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
    """Which jobs compute on devices that they do not hold, beside which others, and under which rule."""

    def seat(self, view: View) -> Sharing:
        """Asked at each decision, when it is clear which job holds which devices."""
        ...

    def turns_of(self, job: Job, now: float) -> Turns:
        """In which lane of the devices it is granted a job is to take turns with guests, and how."""
        ...


@value
class Turns:
    """A lane, and how its turns go: the next is of the member with the least base + weight × time used."""

    lane: int = 0
    base: int = 0
    weight: int = 1


NO_LANE = Turns()


# ---- All tenants may compete.


@dataclass(frozen=True)
class AllTenants:
    def rounds(self, view: View) -> tuple[None]:
        return (None,)
