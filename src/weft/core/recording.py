"""How each kind of event changes the ledger: its half that records what happened.

An event that does not fit the job's state raises and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from types import MappingProxyType
from typing import Any

from weft.core.commands import Seating, Stop
from weft.core.errors import IllegalEventError
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Failed,
    Finished,
    Grown,
    Held,
    Launched,
    Lost,
    Measured,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Stepped,
    Submitted,
    Woken,
)
from weft.core.job import Job
from weft.core.ledger import LEFT, QUEUED, Change, Ledger
from weft.core.reasons import Code, Reason
from weft.core.sharing import LEAST_SPEED, Memory
from weft.core.transitions import State
from weft.core.values import EPSILON_S, check_spec


def _submitted(ledger: Ledger, event: Submitted, now: float) -> None:
    spec = event.job
    if spec.id in ledger.jobs:
        raise IllegalEventError(f"{spec.id} was submitted before and is still live: {ledger.jobs[spec.id]!r}")
    check_spec(spec)
    ledger.submitted += 1
    job = Job(spec, ledger.submitted, now, ledger.best_rate_hz(spec))
    ledger.jobs[spec.id] = job
    ledger.tenants.join(job.tenant)
    if spec.cpus or spec.device_ids or spec.priority:
        ledger.enter(spec)
    if ledger.prioritised and spec.tenant in ledger.prioritised:
        ledger.unordered.add(spec.tenant)
    ledger.changes.append((QUEUED, job))
    if spec.begin_s is not None and spec.begin_s > now + EPSILON_S:
        heappush(ledger.begins, (spec.begin_s, spec.id))
        _held(ledger, Held(spec.id, Reason(Code.BEGINS_AT, (spec.begin_s,))), now)


def begin_due(ledger: Ledger, now: float) -> None:
    """Release the jobs whose begin time has come."""
    while ledger.begins and ledger.begins[0][0] <= now + EPSILON_S:
        begin_s, job_id = heappop(ledger.begins)
        job = ledger.jobs.get(job_id)
        if job is not None and job.spec.begin_s == begin_s:
            _released(ledger, Released(job_id, Code.BEGINS_AT), now)


def _ended(ledger: Ledger, event: Finished | Failed, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None or job.generation != event.generation:
        return  # a late report of a lease that is over
    if job.generation == 0:
        raise IllegalEventError(f"{type(event).__name__} names a lease that was never given: {job!r}")
    ledger.leave(job, event, now)


def _cancelled(ledger: Ledger, event: Cancelled, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None:
        return  # too late: it is over
    if job.is_computing:
        ledger.stops.append(Stop(job.id, job.generation))
    ledger.leave(job, event, now)


def _lost(ledger: Ledger, event: Lost, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None or job.generation != event.generation:
        return  # a late report of a lease that is over
    if job.is_running:
        ledger.free(job, now)
        ledger.change(job, event, now)
        ledger.changes.append((LEFT, job))
        ledger.changes.append((QUEUED, job))
    elif job.seating:
        ledger.vacate(job, now)
    ledger.end_startup(job, now)


def _launched(ledger: Ledger, event: Launched, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None or job.generation != event.generation or not job.is_computing:
        return  # a late report of a lease that is over
    if not 0.0 <= event.startup_s < math.inf:
        raise IllegalEventError(f"{job!r} is launched with {event.startup_s} s to start up in")
    ledger.begin_startup(job, event.startup_s, now)


def _stepped(ledger: Ledger, event: Stepped, now: float) -> None:
    """A job that was asked to pause may have made its first step before it paused."""
    job = ledger.jobs.get(event.job_id)
    if job is not None and job.generation == event.generation:
        ledger.end_startup(job, now)


def _held(ledger: Ledger, event: Held, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None:
        return  # too late: it is over
    after = job.after(Held)
    job.holds = (*(hold for hold in job.holds if hold.code != event.reason.code), event.reason)
    if after is not job.state:
        if job.is_running:
            ledger.withdraw(job, event.reason, now)
        elif job.seating:
            ledger.dismiss(job, event.reason, now)
        ledger.change(job, event, now)
        ledger.jobs_held += 1
        ledger.changes.append((LEFT, job))


def _released(ledger: Ledger, event: Released, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None or job.after(Released) is job.state:
        return  # too late: it is over; or a repeated report
    job.holds = tuple(hold for hold in job.holds if hold.code != event.code)
    if not job.holds:
        ledger.change(job, event, now)
        ledger.jobs_held -= 1
        ledger.changes.append((QUEUED, job))


def _progressed(ledger: Ledger, event: Progressed, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is not None and job.generation == event.generation:
        job.settled_steps = event.steps_done - job.speed * job.served_elapsed_s(now) * job.rate_hz
        if job.state is not State.HELD:
            ledger.changes.append((Change.PROGRESSED, job))


def _measured(ledger: Ledger, event: Measured, now: float) -> None:
    job = ledger.jobs.get(event.job_id)
    if job is None or job.generation != event.generation:
        return  # a late report of a lease that is over
    ledger.end_startup(job, now)  # a job without steps is not measured
    before, job.measured = job.memory, event
    if not event.neighbours:
        where = job.seating.allocation if job.seating else job.allocation or job.last_allocation
        job.alone, job.alone_on = event, ledger.devices.kind_of(where)
    elif event.alone_hz and job.alone and job.alone.rate_hz != event.alone_hz:
        _compared(ledger, job, job.alone, event.alone_hz)
    if job.seating:
        _paced(ledger, job, job.seating, event, now)
    _weighed(ledger, job, before, now)


def _compared(ledger: Ledger, job: Job, before: Measured, alone_hz: float) -> None:
    """Its rate alone is the one of the comparison from now on: an older one was measured under another load."""
    where = job.seating.allocation if job.seating else job.allocation
    if job.alone_on == ledger.devices.kind_of(where):
        job.alone = replace(before, rate_hz=alone_hz)


def _paced(ledger: Ledger, job: Job, seating: Seating, event: Measured, now: float) -> None:
    """By its rate alone on devices like these; if that is not known, it is charged as its policy thought."""
    if job.alone and job.alone.rate_hz > 0 and job.alone_on == ledger.devices.kind_of(seating.allocation):
        ledger.pace(job, max(LEAST_SPEED, min(1.0, event.rate_hz / job.alone.rate_hz)), now)


def _grown(ledger: Ledger, event: Grown, now: float) -> None:
    """Of a job that was never measured all that counts is what it declared."""
    job = ledger.jobs.get(event.job_id)
    if job is None or job.generation != event.generation or job.measured is None:
        return
    before = job.memory
    job.measured = replace(job.measured, persistent_bytes=event.persistent_bytes, ephemeral_bytes=event.ephemeral_bytes)
    _weighed(ledger, job, before, now)


def _weighed(ledger: Ledger, job: Job, before: Memory | None, now: float) -> None:
    if ledger.seats.guests and job.memory != before:
        ledger.make_way(job, Code.SEAT_OUTGROWN, now)
    if job.state is not State.HELD:
        ledger.changes.append((Change.MEASURED, job))


def _node_joined(ledger: Ledger, event: NodeJoined, now: float) -> None:
    ledger.join(event.node)


def _node_lost(ledger: Ledger, event: NodeLost, now: float) -> None:
    at = _present(ledger, event)
    for job in list(ledger.running.values()):
        if any(node == at for node, _ in job.allocation):
            if len(job.allocation) > 1:
                ledger.stops.append(Stop(job.id, job.generation))  # those of its tasks that still run elsewhere
            ledger.free(job, now)
            ledger.change(job, event, now)
    for job in ledger.seats.on(at, -1):
        if len(job.seating.allocation if job.seating else ()) > 1:
            ledger.stops.append(Stop(job.id, job.generation))
        ledger.vacate(job, now)
    ledger.devices.lose(at)
    ledger.version += 1


def _devices_blocked(ledger: Ledger, event: DevicesBlocked, now: float) -> None:
    at = _present(ledger, event)
    blocked = ledger.devices.blockable(at, event.mask)
    if blocked != ledger.blocked_masks[at]:
        for job in ledger.seats.on(at, blocked):
            ledger.dismiss(job, Reason(Code.SEAT_BLOCKED), now)
        ledger.devices.block(at, blocked)
        ledger.version += 1


def _woken(ledger: Ledger, event: Woken, now: float) -> None:
    """Nothing has changed but the time."""


def _present(ledger: Ledger, event: NodeLost | DevicesBlocked) -> int:
    at = ledger.devices.index_of(event.node_name)
    if at is not None:
        return at
    raise IllegalEventError(f"{type(event).__name__} names {event.node_name}, a node that is not there")


RECORDERS: Mapping[type, Callable[[Ledger, Any, float], None]] = MappingProxyType(
    {
        Submitted: _submitted,
        Finished: _ended,
        Failed: _ended,
        Lost: _lost,
        Launched: _launched,
        Stepped: _stepped,
        Progressed: _progressed,
        Measured: _measured,
        Grown: _grown,
        Cancelled: _cancelled,
        Held: _held,
        Released: _released,
        NodeJoined: _node_joined,
        NodeLost: _node_lost,
        DevicesBlocked: _devices_blocked,
        Woken: _woken,
    }
)
