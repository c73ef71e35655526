"""When a waiting job will start: the queue simulated forward with the very same core."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from weft.control.company import computing
from weft.core.commands import Command, Preempt, Seat, Start, Unseat, WakeAt
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
    is_guest = job_id in scheduler.ledger.seats.seated
    running: dict[str, int] = {}
    to_come: list[tuple[float, str, int]] = []
    wake_at = math.inf

    def expect_end(started: str, generation: int, at: float) -> None:
        job = scheduler.ledger.jobs[started]
        has_run_s = job.run_s(at)
        total_s = total_run_s(started)
        if total_s is None:
            return
        left_s = total_s - has_run_s if total_s > has_run_s else has_run_s
        running[started] = generation
        heappush(to_come, (at + max(left_s / job.speed, 0.001), started, generation))

    def carry_out(commands: list[Command], at: float) -> bool:
        nonlocal wake_at
        for command in commands:
            if isinstance(command, WakeAt):
                wake_at = command.time_s
            elif isinstance(command, Preempt | Unseat):
                running.pop(command.job_id, None)
            elif isinstance(command, Start | Seat):
                if command.job_id == job_id and not (is_guest and isinstance(command, Seat)):
                    return True
                expect_end(command.job_id, command.generation, at)
        return False

    for job in computing(scheduler.ledger):
        expect_end(job.id, job.generation, now)
    try:
        at = math.nextafter(now, math.inf)
        if carry_out(scheduler.handle([Woken()], at), at):
            return 0.0
        for _ in range(MOST_INSTANTS):
            at = max(math.nextafter(at, math.inf), min(to_come[0][0] if to_come else math.inf, wake_at))
            if at == math.inf:
                return None  # somebody before it runs for nobody knows how long
            events: list[Event] = []
            while to_come and to_come[0][0] <= at:
                _, ended, generation = heappop(to_come)
                if running.get(ended) == generation:
                    del running[ended]
                    events.append(Finished(ended, generation))
            if wake_at <= at:
                wake_at = math.inf
                events.append(Woken())
            if carry_out(scheduler.handle(events, at), at):
                return at - now
    except WeftError:
        return None
    return None
