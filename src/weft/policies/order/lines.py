"""What orders without keys have in common."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable

from weft.core.job import Job
from weft.core.reasons import Reason
from weft.core.view import View
from weft.policies.stages import Key


class LineOrder:
    """An order that gives the whole line: write `line`, and what else differs from these."""

    rule = "by a line of its own"
    preempts = False
    heeds_priorities = False

    def prepare(self, view: View) -> None:
        """Nothing to remember."""

    def eviction_line(self, view: View) -> list[Job]:
        return []

    def goes_before(self, job: Job, other: Job, now: float) -> bool:
        return False

    def blocks(self, job: Job, now: float) -> bool:
        return False

    def why_not(self, view: View, job: Job, could_hold: Callable[[Job], bool]) -> Reason | None:
        return None

    def rank(self, view: View, job: Job) -> Key:
        return (job.tie,)

    def recall(self, services: Iterable[float]) -> None:
        """There is nothing to learn."""

    def wake_at(self, view: View, running: Collection[str], jobs_waiting: int) -> float:
        return math.inf
