"""What the policy decides, and what nodes are told of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.control.orders import Order, pause_order, run_order, stop_order
from weft.control.record import Record
from weft.core.commands import Allocation, Command, Preempt, Start, Stop, WakeAt
from weft.core.plain import plain

if TYPE_CHECKING:
    from weft.control.desk import Desk

log = logging.getLogger(__name__)


def decide(desk: Desk, now: float) -> None:
    try:
        commands = desk.scheduler.decide(now)
    except Exception as error:
        desk.policy_error = f"{type(error).__name__}: {error}"
        log.warning("the policy fails; nobody is started", exc_info=error)
        return
    desk.policy_error = ""
    starts = [command for command in commands if isinstance(command, Start)]
    for command in commands:
        _carry_out(desk, command, starts, now)


def launch(desk: Desk, record: Record, now: float) -> None:
    """Its next attempt, on the devices it holds."""
    record.attempt += 1
    record.is_alive = True
    record.granted_at, record.attempt_started_at = now, None
    desk.out.attempts[record.id, record.attempt] = record.attempt_row()
    desk.out.orders.append(_run(desk, record))


def all_orders(desk: Desk) -> list[Order]:
    """What a node must do that knows of nothing: whoever is not named here is to go."""
    alive = [(record, desk.job(record.id)) for record in desk.records.values() if record.is_alive]
    stops = [stop_order(record, job.generation) for record, job in alive if record.ending]
    pauses = [
        pause_order(record, job.generation, None) for record, job in alive if not record.ending and not job.is_running
    ]
    runs = [_run(desk, record) for record, job in alive if not record.ending and job.is_running]
    return stops + pauses + runs


def _carry_out(desk: Desk, command: Command, starts: Sequence[Start], now: float) -> None:
    match command:
        case WakeAt(time_s):
            desk.wake_at = time_s
        case Stop():
            pass  # who cancels has seen to that
        case Preempt():
            _preempt(desk, command, starts)
        case Start():
            _start(desk, command, now)


def _preempt(desk: Desk, command: Preempt, starts: Sequence[Start]) -> None:
    record = desk.records[command.job_id]
    if not record.ending:
        record.preemptions += 1
        comers = _comers(desk, desk.job(record.id).last_allocation, starts)
        ids = [one.id for one, _ in comers]
        desk.out.orders.append(pause_order(record, command.generation, _needed_bytes(comers), ids))
    desk.note("Preempt", record.id, plain(command))


def _start(desk: Desk, command: Start, now: float) -> None:
    record = desk.records[command.job_id]
    record.devices = tuple(map(desk.floor.name, desk.floor.held(desk.scheduler.ledger, command.allocation)))
    if not record.is_alive:
        launch(desk, record, now)
    else:
        desk.out.attempts[record.id, record.attempt] = record.attempt_row()
        desk.out.orders += [] if record.ending else [_run(desk, record)]
    desk.note("Start", record.id, plain(command))


def _comers(desk: Desk, freed: Allocation, starts: Sequence[Start]) -> list[tuple[Record, int]]:
    """Those who get these devices, each with how many of them."""
    counts = [(desk.records[start.job_id], _common(freed, start.allocation)) for start in starts]
    return [(record, count) for record, count in counts if count]


def _common(one: Allocation, other: Allocation) -> int:
    return sum((mask & theirs).bit_count() for node, mask in one for at, theirs in other if node == at)


def _needed_bytes(comers: Sequence[tuple[Record, int]]) -> int | None:
    """The memory that they need on these devices; None if that is not known of one of them."""
    total_bytes = 0
    for record, count in comers:
        if record.needs_bytes is None:
            return None
        total_bytes += record.needs_bytes * count // record.request["gpus"]
    return total_bytes


def _run(desk: Desk, record: Record) -> Order:
    job = desk.job(record.id)
    return run_order(record, job.generation, desk.floor.held(desk.scheduler.ledger, job.allocation))
