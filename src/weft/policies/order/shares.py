"""What each job has had of the time that is shared, by its weight: the books that equal shares are kept by.

A job's account is the seconds it has held its devices for each unit of its weight. Only differences among jobs of one
server mean anything, and only while somebody goes without: whoever runs while nobody waits owes nothing for it, so then
the books are closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from weft.core.job import Job
from weft.core.ledger import Change
from weft.core.view import View

LOOKS = 4
"""So many times in a quantum, at most, the level is worked out for those that come."""
REVIEW_QUANTA = 4
"""So often the accounts of all are looked at."""
MOST_QUANTA = 4
"""No account is further than this from the level, for the lightest job: what device types, or gangs that do not fit
beside each other, keep apart for long is no debt, and must starve nobody when all can compete again."""


class Accounts:
    """Kept at the beginning of each decision, from what has changed."""

    def __init__(self, quantum_s: Callable[[], float], run_s: Callable[[Job, float], float]) -> None:
        self.is_open = False
        """Whether somebody has lately gone without."""
        self._quantum_s = quantum_s
        self._run_s = run_s
        """How long a job had run when its turn began."""
        self._of: dict[str, tuple[float, float]] = {}
        """By job: where its account stood, and how long the job had run then."""
        self._levels: dict[frozenset[str] | None, float] = {}
        """Where those that hold devices stand, by the device types a newcomer may use."""
        self._levels_until_s = -math.inf
        self._review_at_s = math.inf
        self._wanted_s = -math.inf
        """When somebody was last seen to go without."""
        self._seated = 0
        self._version = -1

    def had_s(self, job: Job, run_s: float) -> float:
        """Its account when it has run so long; nothing while nobody goes without."""
        stood_s, then_s = self._of.get(job.id, (0.0, run_s))
        return stood_s + (run_s - then_s) / job.spec.weight

    def goes_without(self, jobs_waiting: int) -> bool:
        """Whether somebody waits, and computes nowhere as a guest meanwhile."""
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
        """Somebody goes without: from here on it is counted."""
        self.is_open = True
        self._of = {job.id: (0.0, self._run_s(job, view.now)) for job in view.jobs.values()}
        self._levels_until_s = -math.inf
        self._review_at_s = view.now + REVIEW_QUANTA * self._quantum_s()
        return True

    def _enter(self, view: View, jobs: Iterable[Job]) -> None:
        """Who comes, or comes back, has no claim on what was shared before."""
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
