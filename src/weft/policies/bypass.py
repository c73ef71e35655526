"""A bound on bypass for orders without keys: who has waited too long, and when the next one will have."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from weft.core.errors import InputError
from weft.core.job import Job
from weft.core.transitions import State
from weft.core.values import EPSILON_S
from weft.core.view import View


class Bypass:
    """A job that has waited `limit_s` without a break is overdue, and stays so to its end."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = checked_limit_s(limit_s)
        self._overdue: set[str] = set()

    def overdue(self, view: View) -> list[Job]:
        """By arrival."""
        for job in view.jobs.values():
            if job.is_waiting and view.now + EPSILON_S >= job.since_s + self.limit_s:
                self._overdue.add(job.id)
        self._overdue &= view.jobs.keys()
        jobs = [view.jobs[job_id] for job_id in self._overdue]
        return sorted((job for job in jobs if job.state is not State.HELD), key=lambda job: job.tie)

    def blocker(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Job | None:
        """The overdue job that waits and that this one must not pass."""
        waiting = [view.jobs[job_id] for job_id in self._overdue if job_id in view.jobs]
        waiting = [other for other in waiting if other.is_waiting and could_hold(other)]
        first = min(waiting, key=lambda other: other.tie, default=job)
        return None if first is job or (job in waiting and job.tie < first.tie) else first

    def wake_at(self, view: View, running: Collection[str]) -> float:
        """When the next one becomes overdue, with these jobs running from now on."""
        evicted = any(job_id not in running for job_id in view.running)
        ends = [job.since_s + self.limit_s for job in view.jobs.values() if job.is_waiting and job.id not in running]
        to_come = [end for end in ends if end > view.now + EPSILON_S]
        return min([*to_come, view.now + self.limit_s if evicted else math.inf])


def checked_limit_s(limit_s: float) -> float:
    if not limit_s > 0:
        raise InputError(f"bypass_limit_s {limit_s:g} is not above 0", "leave it out to switch it off")
    return limit_s
