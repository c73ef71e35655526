"""Gandiva's time-slicing: the jobs of a server take turns of a quantum; accounts of what each job has had."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.values import EPSILON_S
from weft.core.view import View
from weft.policies.base import Key
from weft.policies.migrate.cost import MoveCost, has_moved
from weft.policies.order.keyed import KeyedOrder

LEAST_S = 2.0
"""Steps of milliseconds make no quantum shorter than this."""
COST_SHARE = 0.02
"""At most this part of a quantum is spent on the switch to its job: the paper reports 2 % at 60 s."""
FIRST_S = 5.0
"""So long, or until it has been measured, a new job keeps its devices from other new jobs."""
SAME = 0.5
"""Jobs that are apart by less than about this part of a quantum have had the same: milliseconds must not change whose
turn it is, so that turns come round in one order."""
EARLY = 0.1
"""A quantum that ends within this part of it ends now if jobs are switched now: switches then come together, and few
decisions are needed for them."""
NEW, BY_SHARE, AS_GUEST = range(3)
IN_QUANTUM, IN_TURN, HAD_ITS_TURN = range(3)


@dataclass
class GandivaOrder(KeyedOrder):
    """The job that has held its devices for the least time, by its weight, goes next; of equals, the longest waiting. A
    gang's second counts as one, however many devices it holds: all are slowed alike. Only jobs of one server are
    compared.

    `quantum_s` or `quantum_steps`, whichever is less, is for how long no job that has had as much takes the devices of
    one that has just begun: how often jobs are switched, not how much each gets. Where a switch is costly the quantum
    is longer, so that the switch takes no more than COST_SHARE of it. A quantum that has begun ends early only for a
    new job, or for a larger gang that has had less: while a gang's turn has come and too few devices are at the end of
    a quantum, others go on, and those that begin meanwhile make way as soon as the gang fits with them out of the way.

    A job that has never run waits for nothing of this: it takes the devices of the job that has had most. A guest
    computes already, so it takes no turns: it gets devices of its own when no other job wants them.
    """

    quantum_s: float
    quantum_steps: float
    cost: MoveCost = field(default_factory=lambda: MoveCost(0.0))
    """What a switch costs: learnt by `Migration`."""
    accounts: ShareAccounts = field(init=False, repr=False)

    rule = "of a server's jobs, the one with the least time for its weight goes next, for a quantum; new jobs go first"
    preempts = True
    returns_home = True
    heeds_measures = True

    def __post_init__(self) -> None:
        if not (self.quantum_s > 0 and self.quantum_steps > 0):
            raise InputError("a quantum is not above 0", "the defaults are quantum_s=60, quantum_steps=100")
        self.accounts = ShareAccounts(self._longest_s, self._run_before_turn_s)

    def learn(self, view: View) -> bool:
        return self.accounts.keep(view)

    def key(self, job: Job, now: float) -> Key:
        if job.seating:
            return (AS_GUEST, job.since_s, job.tie)
        if not job.is_running:
            if job.generation == 0:
                return (NEW, job.tie)
            return (BY_SHARE, self._had(job, now), IN_TURN, job.since_s, job.tie)
        if job.generation == 1 and job.measured is None and now + EPSILON_S < job.served_from_s + FIRST_S:
            return (NEW, job.tie)
        if self.is_in_quantum(job, now):
            return (BY_SHARE, self._had(job, now), IN_QUANTUM, job.since_s, job.tie)
        stays_since_s = job.served_from_s + self._quantum_of(job)  # the job that has stayed on the longest leaves first
        return (BY_SHARE, self._had(job, now), HAD_ITS_TURN, -stays_since_s, job.tie)

    def changes_at(self, job: Job, now: float, is_running: bool) -> float:
        if not is_running:
            return math.inf
        since_s = job.served_from_s if job.is_running else now
        over = self._quanta_over(job, now) if job.is_running else 0
        is_new = now + EPSILON_S < since_s + FIRST_S
        ends_s = since_s + (over + 1) * self._quantum_of(job) if self.accounts.is_open or over == 0 else math.inf
        return min(ends_s, since_s + FIRST_S) if is_new else ends_s

    def may_change_at(self, job: Job, now: float) -> float:
        """From when on its quantum may end, if jobs are switched then."""
        at_s = self.changes_at(job, now, is_running=True)
        return max(now, at_s - EARLY * self._quantum_of(job))

    def look_again_at(self, now: float, jobs_waiting: int) -> float:
        """If a job goes without and that is not counted yet."""
        is_news = not self.accounts.is_open and self.accounts.goes_without(jobs_waiting)
        return now + FIRST_S if is_news else math.inf

    def may_move_to(self, job: Job, holders: Iterable[Job], now: float) -> bool:
        """Whether a job is so far behind these, of its own server, that it is worth what changing its devices costs."""
        worth_s = self.cost.seconds / COST_SHARE
        had_s = self._had_s(job, now)
        return all(self._had_s(one, now) - had_s >= worth_s for one in holders)

    def _had(self, job: Job, now: float) -> int:
        """What it had had when its quantum began, in parts of a quantum, so that whole ones are clear of the limits."""
        return math.floor(self._had_s(job, now) / (SAME * self.slice_s) + 0.5)

    def _had_s(self, job: Job, now: float) -> float:
        return self.accounts.had_s(job, self._run_before_turn_s(job, now))

    def _run_before_turn_s(self, job: Job, now: float) -> float:
        """How long it had run when its quantum began; one that stays on when it is over is in another one."""
        if not job.is_running:
            return job.run_s(now)
        return job.settled_run_s + self._quanta_over(job, now) * self._quantum_of(job)

    def is_in_quantum(self, job: Job, now: float) -> bool:
        """Whether it holds its devices and its first quantum on them is not over."""
        return job.is_running and self._quanta_over(job, now) == 0

    def _quanta_over(self, job: Job, now: float) -> int:
        """How many quanta have gone by since it got the devices it holds, and had started up."""
        return math.floor((job.served_elapsed_s(now) + EPSILON_S) / self._quantum_of(job) + EARLY)

    @property
    def slice_s(self) -> float:
        """A quantum of a job that resumes where it was paused, if its steps do not end it before."""
        return max(self.quantum_s, self._least_s(self.cost.resume_s))

    @property
    def quanta_s(self) -> tuple[float, float]:
        """The least that a quantum is where jobs resume, and after a move: as learnt so far."""
        return self._least_s(self.cost.resume_s), self._least_s(self.cost.seconds)

    def _longest_s(self) -> float:
        """A quantum of a job that has changed its devices."""
        return max(self.quantum_s, self._least_s(max(self.cost.resume_s, self.cost.seconds)))

    def _quantum_of(self, job: Job) -> float:
        cost_s = self.cost.resume_s
        if job.is_running and has_moved(job):
            cost_s = max(cost_s, self.cost.seconds)
        rate_hz = job.measured.rate_hz if job.measured else 0.0
        in_steps_s = max(LEAST_S, self.quantum_steps / rate_hz) if rate_hz > 0 else math.inf
        return max(min(self.quantum_s, in_steps_s), self._least_s(cost_s))

    def _least_s(self, cost_s: float) -> float:
        """The quantum of which such a cost is no more than its share, though it ends early."""
        return cost_s / (COST_SHARE * (1.0 - EARLY))


# ---- What each job has had of the time that is shared, by its weight: the books that equal shares are kept by.
#
# A job's account is the seconds it has held its devices for each unit of its weight. Only differences among jobs of
# one server mean anything, and only while a job goes without: a job that runs while none waits owes nothing for it,
# so then the books are closed.

LOOKS = 4
"""So many times in a quantum, at most, the level is worked out for those that come."""
REVIEW_QUANTA = 4
"""So often the accounts of all are looked at."""
MOST_QUANTA = 4
"""No account is further than this from the level, for the lightest job: what device types, or gangs that do not fit
beside each other, keep apart for long is no debt, and must starve no job when all can compete again."""


class ShareAccounts:
    """Kept at the beginning of each decision, from what has changed."""

    def __init__(self, quantum_s: Callable[[], float], run_s: Callable[[Job, float], float]) -> None:
        self.is_open = False
        """Whether a job has lately gone without."""
        self._quantum_s = quantum_s
        self._run_s = run_s
        """How long a job had run when its turn began."""
        self._of: dict[str, tuple[float, float]] = {}
        """By job: where its account stood, and how long the job had run then."""
        self._levels: dict[frozenset[str] | None, float] = {}
        """The middle account of the jobs that hold devices, by the device types a newcomer may use."""
        self._levels_until_s = -math.inf
        self._review_at_s = math.inf
        self._wanted_s = -math.inf
        """When a job was last seen to go without."""
        self._seated = 0
        self._version = -1

    def had_s(self, job: Job, run_s: float) -> float:
        """Its account when it has run so long; nothing while no job goes without."""
        stood_s, then_s = self._of.get(job.id, (0.0, run_s))
        return stood_s + (run_s - then_s) / job.spec.weight

    def goes_without(self, jobs_waiting: int) -> bool:
        """Whether a job waits, and does not compute as a guest meanwhile."""
        return jobs_waiting > self._seated

    def keep(self, view: View) -> bool:
        """Take in what has changed; true if the accounts of those that were there before are not what they were."""
        is_told = view.version == self._version
        self._version, self._seated = view.version, len(view.seated)
        queued = [job for change, job in view.changes if change is Change.QUEUED and job.is_waiting]
        if self.goes_without(view.jobs_waiting - len({job.id for job in queued})):
            self._wanted_s = view.now
        if view.now >= self._wanted_s + self._quantum_s():
            return self._close()
        if not self.is_open:
            return self._begin(view)
        if not is_told:
            self._enter(view, (job for job in view.jobs.values() if job.id not in self._of))
        for change, job in view.changes if is_told else ():
            if change is Change.LEFT and job.id not in view.jobs:
                self._of.pop(job.id, None)
        self._enter(view, queued)
        return view.now >= self._review_at_s and self._review(view)

    def _close(self) -> bool:
        was_open, self.is_open = self.is_open, False
        self._of = {}
        return was_open

    def _begin(self, view: View) -> bool:
        """A job goes without: from here on it is counted."""
        self.is_open = True
        self._of = {job.id: (0.0, self._run_s(job, view.now)) for job in view.jobs.values()}
        self._levels_until_s = -math.inf
        self._review_at_s = view.now + REVIEW_QUANTA * self._quantum_s()
        return True

    def _enter(self, view: View, jobs: Iterable[Job]) -> None:
        """A job that comes, or comes back, has no claim on what was shared before."""
        for job in jobs:
            if job.id in view.jobs:
                run_s, level_s = self._run_s(job, view.now), self._level_s(view, job.spec.device_types)
                stood_s = max(self.had_s(job, run_s), level_s) if job.id in self._of else level_s
                self._of[job.id] = (stood_s, run_s)

    def join(self, view: View, job: Job, peers: Iterable[Job]) -> None:
        """It comes to a server from elsewhere, and begins in the midst of those that are there."""
        stand = sorted(self._stand_s(view, (peer for peer in peers if peer is not job)))
        if stand and job.id in self._of:
            self._of[job.id] = (stand[len(stand) // 2], self._run_s(job, view.now))

    def _level_s(self, view: View, types: frozenset[str] | None) -> float:
        """Where a newcomer begins: in the midst of those that hold what it may use, as their turns began."""
        if view.now >= self._levels_until_s:
            self._levels, self._levels_until_s = {}, view.now + self._quantum_s() / LOOKS
        if types not in self._levels:
            kinds = [node.device_type for node in view.nodes]
            able = [job for job in view.running.values() if types is None or kinds[job.allocation[0][0]] in types]
            stand = sorted(self._stand_s(view, able) or self._stand_s(view, view.jobs.values()))
            self._levels[types] = stand[len(stand) // 2] if stand else 0.0
        return self._levels[types]

    def _stand_s(self, view: View, jobs: Iterable[Job]) -> list[float]:
        return [self.had_s(job, self._run_s(job, view.now)) for job in jobs if job.id in self._of]

    def _review(self, view: View) -> bool:
        """Bring those that are too far off closer; true if there are any."""
        self._review_at_s = view.now + REVIEW_QUANTA * self._quantum_s()
        jobs = [job for job in view.jobs.values() if job.id in self._of]
        self._of = {job.id: self._of[job.id] for job in jobs}
        turn_s = self._quantum_s() / min((job.spec.weight for job in jobs), default=1.0)
        most_s, is_any_off = MOST_QUANTA * turn_s, False
        stand_s = self._stand_s(view, jobs)
        by_server: dict[int, list[float]] = {}
        for job, had_s in zip(jobs, stand_s, strict=True):
            by_server.setdefault(server_of(job), []).append(had_s)
        levels_s = {server: sorted(stand)[len(stand) // 2] for server, stand in by_server.items()}
        for job, had_s in zip(jobs, stand_s, strict=True):
            level_s = levels_s[server_of(job)]
            is_paid = (
                job.is_running and view.now - job.since_s >= most_s * job.spec.weight
            )  # all the time is not enough
            near_s = min(max(had_s, level_s - (turn_s if is_paid else most_s)), level_s + most_s)
            if near_s != had_s:
                is_any_off = True
                self._of[job.id] = (near_s, self._run_s(job, view.now))
        return is_any_off


def server_of(job: Job) -> int:
    """The first node of where it computes or ran last; -1 if it has never run."""
    where = job.allocation or (job.seating.allocation if job.seating else job.last_allocation)
    return where[0][0] if where else -1
