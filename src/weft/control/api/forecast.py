"""When a waiting job will start: the queue simulated forward with the very same core."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from weft.control.loop.inventory import computing
from weft.core.commands import Preempt, Seat, Start, Unseat, WakeAt
from weft.core.errors import WeftError
from weft.core.events import Event, Finished, Woken
from weft.core.scheduler import Scheduler
from weft.core.snapshot import restored
from weft.core.view import Decider

MOST_INSTANTS = 20_000
"""Then it is too far away to say anything sensible about."""


def starts_in_s(
    ledger: dict[str, Any],
    policy: Decider,
    now: float,
    job_id: str,
    total_run_s: Callable[[str], float | None],
    quotas: Mapping[str, int] | None = None,
) -> float | None:
    """Seconds until the job starts, if every job runs as long as `total_run_s` says; None if that cannot be said.

    One that is a guest already waits for devices of its own; any other begins with a seat as well.

    `ledger` is a snapshot: the live one is not touched. A job that has run longer than it was expected to is taken
    to have as much before it as behind it.
    """
    scheduler = Scheduler(restored(ledger), policy)
    scheduler.ledger.tenants.quotas = dict(quotas or {})
    try:
        return _Forecast(scheduler, now, job_id, total_run_s).starts_at_s() - now
    except (WeftError, _UnknownError):
        return None


class _UnknownError(Exception):
    """A job before it has no expected end, or too much happens until then."""


class _Forecast:
    """The instants to come, one after the other, until the job begins."""

    def __init__(
        self, scheduler: Scheduler, now: float, job_id: str, total_run_s: Callable[[str], float | None]
    ) -> None:
        self._scheduler, self._job_id, self._total_run_s = scheduler, job_id, total_run_s
        self._is_guest = job_id in scheduler.ledger.seats.seated
        self._now, self._wake_at = now, math.inf
        self._generations: dict[str, int] = {}
        self._ends: list[tuple[float, str, int]] = []
        for job in computing(scheduler.ledger):
            self._expect_end(job.id, job.generation)

    def starts_at_s(self) -> float:
        begun_s = self._now
        if self._begins([Woken()], math.nextafter(begun_s, math.inf)):
            return begun_s
        for _ in range(MOST_INSTANTS):
            next_s = min(self._ends[0][0] if self._ends else math.inf, self._wake_at)
            if next_s == math.inf:
                break
            at = max(math.nextafter(self._now, math.inf), next_s)
            if self._begins(self._events(at), at):
                return at
        raise _UnknownError

    def _events(self, at: float) -> list[Event]:
        events: list[Event] = []
        while self._ends and self._ends[0][0] <= at:
            _, ended, generation = heappop(self._ends)
            if self._generations.get(ended) == generation:
                del self._generations[ended]
                events.append(Finished(ended, generation))
        if self._wake_at <= at:
            self._wake_at = math.inf
            events.append(Woken())
        return events

    def _begins(self, events: list[Event], at: float) -> bool:
        """Whether the job does, by what follows from these events."""
        self._now = at
        for command in self._scheduler.handle(events, at):
            if isinstance(command, WakeAt):
                self._wake_at = command.time_s
            elif isinstance(command, Preempt | Unseat):
                self._generations.pop(command.job_id, None)
            elif isinstance(command, Start | Seat):
                if self._is_it(command):
                    return True
                self._expect_end(command.job_id, command.generation)
        return False

    def _is_it(self, command: Start | Seat) -> bool:
        return command.job_id == self._job_id and not (self._is_guest and isinstance(command, Seat))

    def _expect_end(self, job_id: str, generation: int) -> None:
        job, total_s = self._scheduler.ledger.jobs[job_id], self._total_run_s(job_id)
        if total_s is None:
            return
        has_run_s = job.held_s(self._now)
        left_s = total_s - has_run_s if total_s > has_run_s else has_run_s
        self._generations[job_id] = generation
        heappush(self._ends, (self._now + max(left_s / job.speed, 0.001), job_id, generation))
