"""What the policy decides, and what nodes are told of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.control.company import common, computing, place_of
from weft.control.orders import Order, pause_order, run_order, stop_order
from weft.control.record import Record
from weft.control.store import NOTED
from weft.core.commands import Allocation, Command, Preempt, Seat, Seating, Start, Stop, Tell, Unseat, WakeAt
from weft.core.events import Launched
from weft.core.reasons import Code
from weft.core.serialization import KIND_OF, plain, plain_reason

if TYPE_CHECKING:
    from weft.control.desk import Desk

ASK_AGAIN_S = 10.0
"""A policy that fails, or its share stage, has not said when it wants to look again. What fails again in the same way
is not logged again.
"""

log = logging.getLogger(__name__)


def decide(desk: Desk, now: float) -> None:
    """Who holds which devices, then who sits on them as a guest. All is decided before the first order is given."""
    failed_before, desk.policy_error = desk.policy_error, ""
    commands: list[Command] = []
    try:
        commands += desk.scheduler.decide(now)
    except Exception as error:
        desk.policy_error = f"{type(error).__name__}: {error}"
        desk.wake_at = min(desk.wake_at, now + ASK_AGAIN_S)
        if desk.policy_error != failed_before:
            log.warning("the policy fails; nobody is started", exc_info=error)
        commands += desk.scheduler.ledger.take_stops()  # who has lost its seat is to leave it all the same
    else:
        commands += _shared(desk, now, failed_before)
    for command in commands:
        _carry_out(desk, command, now)
    _make_room(desk, {command.job_id for command in commands if isinstance(command, Start | Seat)})
    desk.out.orders.sort(key=_is_run)  # whoever leaves is told before those who come


def _is_run(order: Order) -> bool:
    return bool(order["type"] == "run")


def launch(desk: Desk, record: Record, now: float) -> None:
    """Its next attempt, on the devices it holds or sits on."""
    record.attempt += 1
    record.is_alive = True
    desk.roster.alive[record.id] = record
    record.granted_at, record.attempt_started_at = now, None
    desk.out.attempts[record.id, record.attempt] = record.attempt_row()
    desk.out.orders.append(_run(desk, record))
    if desk.startup_s:
        desk.tell(Launched(record.id, desk.job(record.id).generation, desk.startup_s), now)


def all_orders(desk: Desk) -> list[Order]:
    """What a node must do that knows of nothing: whoever is not named here is to go."""
    alive = [(record, desk.job(record.id)) for record in desk.roster.alive_after()]
    stops = [stop_order(record, job.generation) for record, job in alive if record.ending]
    pauses = [
        pause_order(record, job.generation, None) for record, job in alive if not record.ending and not job.is_computing
    ]
    runs = [_run(desk, record) for record, job in alive if not record.ending and job.is_computing]
    return stops + pauses + runs


def _shared(desk: Desk, now: float, failed_before: str) -> list[Command]:
    try:
        return desk.scheduler.share(now)
    except Exception as error:
        desk.policy_error = f"its share stage: {type(error).__name__}: {error}"
        desk.wake_at = min(desk.wake_at, now + ASK_AGAIN_S)
        if desk.policy_error != failed_before:
            log.warning("the policy's share stage fails; guests stay as they are", exc_info=error)
        return []


def _carry_out(desk: Desk, command: Command, now: float) -> None:
    match command:
        case WakeAt(time_s):
            desk.wake_at = time_s
        case Stop():
            pass  # who cancels has seen to that
        case Tell(job_id, reason):
            if job_id in desk.records:
                desk.note(NOTED, job_id, {"job_id": job_id, "reason": plain_reason(reason)})
        case Preempt() | Unseat():
            _pause(desk, command)
        case Start():
            _run_on(desk, command, command, now)
        case Seat(seating=seating):
            _run_on(desk, command, seating, now)


def _pause(desk: Desk, command: Preempt | Unseat) -> None:
    record = desk.records.get(command.job_id)
    if record is None:
        return  # a guest that lost its seat when it was told to end, and has ended
    if record.is_alive and not record.ending:
        record.preemptions += isinstance(command, Preempt) and command.reason.code is not Code.PAUSED
        record.unseats += isinstance(command, Unseat)
        others = _others_on(desk, record.id, desk.job(record.id).last_allocation)
        ids = [one.id for one, _ in others]
        desk.out.orders.append(pause_order(record, command.generation, _needed_bytes(others), ids))
    desk.note(KIND_OF[type(command)], record.id, plain(command))


def _make_room(desk: Desk, comers: set[str]) -> None:
    """A job that its owner paused keeps its memory until others come to its devices: then it may have to go deeper.

    A preempted job has made that room when it paused.
    """
    if not comers:
        return
    ordered = {order["job"] for order in desk.out.orders if order["type"] == "pause"}
    for record in desk.roster.alive.values():
        job = desk.job(record.id)
        if Code.PAUSED in job.held_for and not record.ending and record.id not in ordered:
            others = _others_on(desk, record.id, job.last_allocation)
            ids = [one.id for one, _ in others]
            if comers & set(ids):
                desk.out.orders.append(pause_order(record, job.generation, _needed_bytes(others), ids))


def _run_on(desk: Desk, command: Start | Seat, place: Start | Seating, now: float) -> None:
    record = desk.records[command.job_id]
    record.devices = tuple(map(desk.floor.name, desk.floor.held(desk.scheduler.ledger, place.allocation)))
    record.lane_base, record.lane_weight = place.base, place.weight
    desk.note(KIND_OF[type(command)], record.id, plain(command))
    if not record.is_alive:
        launch(desk, record, now)
    else:
        desk.out.attempts[record.id, record.attempt] = record.attempt_row()
        desk.out.orders += [] if record.ending else [_run(desk, record)]


def _others_on(desk: Desk, job_id: str, left: Allocation) -> list[tuple[Record, int]]:
    """Who computes from now on where this job did, those who come and those who stay; on how many of its devices."""
    others = [job for job in computing(desk.scheduler.ledger) if job.id != job_id]
    counts = [(desk.records[job.id], common(left, place_of(job).allocation)) for job in others]
    return [(record, count) for record, count in counts if count]


def _needed_bytes(others: Sequence[tuple[Record, int]]) -> int | None:
    """The memory that they need on these devices; None if that is not known of one of them."""
    total_bytes = 0
    for record, count in others:
        if record.needs_bytes is None:
            return None
        total_bytes += record.needs_bytes * count // record.request["gpus"]
    return total_bytes


def _run(desk: Desk, record: Record) -> Order:
    job = desk.job(record.id)
    place = place_of(job)
    devices = desk.floor.held(desk.scheduler.ledger, place.allocation)
    turns = {"lane": place.lane, "base": record.lane_base, "weight": record.lane_weight}
    return run_order(
        record, job.generation, devices, {"guest": job.seating is not None, "throttled": place.is_throttled, **turns}
    )
