"""Run the policy, and turn its commands into orders for the node.

Orders are safe to repeat, and carry the generation of the lease they belong to.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.control.loop.inputs import Order, PendingRun
from weft.control.loop.inventory import common, computing, place_of
from weft.control.loop.job_record import JobRecord
from weft.control.store.log_store import NOTED
from weft.core.commands import Allocation, Command, Preempt, Seat, Seating, Start, Stop, Tell, Unseat, WakeAt
from weft.core.events import Launched
from weft.core.reasons import Code
from weft.core.serialization import KIND_OF, plain, plain_reason
from weft.protocol import Launch, PauseOrder, RunOrder, SeatOrder, StopOrder

if TYPE_CHECKING:
    from weft.control.loop.control_state import ControlState
ASK_AGAIN_S = 10.0
"""When a policy, or its share stage, is asked again after it failed. The same failure is not logged twice.
"""

log = logging.getLogger(__name__)


def decide(control: ControlState, now: float) -> None:
    """Decide which jobs hold devices, then which sit on them as guests, before any order is given."""
    failed_before, control.policy_error = control.policy_error, ""
    commands: list[Command] = []
    try:
        commands += control.scheduler.decide(now)
    except Exception as error:
        control.policy_error = f"{type(error).__name__}: {error}"
        control.wake_at = min(control.wake_at, now + ASK_AGAIN_S)
        if control.policy_error != failed_before:
            log.warning("the policy fails; no job is started", exc_info=error)
        commands += control.scheduler.ledger.take_stops()  # a guest that has lost its seat must leave it all the same
    else:
        commands += _shared(control, now, failed_before)
    for command in commands:
        _carry_out(control, command, now)
    _make_room(control, {command.job_id for command in commands if isinstance(command, Start | Seat)})
    control.out.orders.sort(key=_is_run)  # jobs that leave are told before jobs that start


def _is_run(order: Order) -> bool:
    return isinstance(order, PendingRun)


def launch(control: ControlState, record: JobRecord, now: float) -> None:
    """Its next attempt, on the devices it holds or sits on."""
    record.attempt += 1
    record.is_alive = True
    control.live_jobs.alive[record.id] = record
    record.granted_at, record.attempt_started_at = now, None
    control.out.attempts[record.id, record.attempt] = record.attempt_row()
    control.out.orders.append(_run(control, record))
    if control.startup_s:
        control.apply(Launched(record.id, control.job(record.id).generation, control.startup_s), now)


def all_orders(control: ControlState) -> list[Order]:
    """The full desired state, for a node that may know nothing: what is not named here is to end."""
    alive = [(record, control.job(record.id)) for record in control.live_jobs.alive_after()]
    stops = [StopOrder(record.id, record.attempt, job.generation) for record, job in alive if record.ending]
    pauses = [
        PauseOrder(record.id, record.attempt, job.generation)
        for record, job in alive
        if not record.ending and not job.is_computing
    ]
    runs = [_run(control, record) for record, job in alive if not record.ending and job.is_computing]
    return [*stops, *pauses, *runs]


def _shared(control: ControlState, now: float, failed_before: str) -> list[Command]:
    try:
        return control.scheduler.share(now)
    except Exception as error:
        control.policy_error = f"its share stage: {type(error).__name__}: {error}"
        control.wake_at = min(control.wake_at, now + ASK_AGAIN_S)
        if control.policy_error != failed_before:
            log.warning("the policy's share stage fails; guests stay as they are", exc_info=error)
        return []


def _carry_out(control: ControlState, command: Command, now: float) -> None:
    match command:
        case WakeAt(time_s):
            control.wake_at = time_s
        case Stop():
            pass  # cancelling has already ordered it
        case Tell(job_id, reason):
            if job_id in control.records:
                control.note(NOTED, job_id, {"job_id": job_id, "reason": plain_reason(reason)})
        case Preempt() | Unseat():
            _pause(control, command)
        case Start():
            _run_on(control, command, command, now)
        case Seat(seating=seating):
            _run_on(control, command, seating, now)


def _pause(control: ControlState, command: Preempt | Unseat) -> None:
    record = control.records.get(command.job_id)
    if record is None:
        return  # a guest that lost its seat when it was stopped, and has ended
    if record.is_alive and not record.ending:
        record.preemptions += isinstance(command, Preempt) and command.reason.code is not Code.PAUSED
        record.unseats += isinstance(command, Unseat)
        others = _others_on(control, record.id, control.job(record.id).last_allocation)
        ids = [one.id for one, _ in others]
        control.out.orders.append(PauseOrder(record.id, record.attempt, command.generation, _needed_bytes(others), ids))
    control.note(KIND_OF[type(command)], record.id, plain(command))


def _make_room(control: ControlState, incoming: set[str]) -> None:
    """A job that its owner paused keeps its memory until others start on its devices: then it may have to pause deeper.

    A preempted job has made that room when it paused.
    """
    if not incoming:
        return
    ordered = {order.job for order in control.out.orders if isinstance(order, PauseOrder)}
    for record in control.live_jobs.alive.values():
        job = control.job(record.id)
        if Code.PAUSED in job.held_for and not record.ending and record.id not in ordered:
            others = _others_on(control, record.id, job.last_allocation)
            ids = [one.id for one, _ in others]
            if incoming & set(ids):
                control.out.orders.append(
                    PauseOrder(record.id, record.attempt, job.generation, _needed_bytes(others), ids)
                )


def _run_on(control: ControlState, command: Start | Seat, place: Start | Seating, now: float) -> None:
    record = control.records[command.job_id]
    record.devices = tuple(
        map(control.inventory.name, control.inventory.held(control.scheduler.ledger, place.allocation))
    )
    record.lane_base, record.lane_weight = place.base, place.weight
    control.note(KIND_OF[type(command)], record.id, plain(command))
    if not record.is_alive:
        launch(control, record, now)
    else:
        control.out.attempts[record.id, record.attempt] = record.attempt_row()
        control.out.orders += [] if record.ending else [_run(control, record)]


def _others_on(control: ControlState, job_id: str, left: Allocation) -> list[tuple[JobRecord, int]]:
    """The jobs that compute from now on where this one did, new and old; on how many of its devices."""
    others = [job for job in computing(control.scheduler.ledger) if job.id != job_id]
    counts = [(control.records[job.id], common(left, place_of(job).allocation)) for job in others]
    return [(record, count) for record, count in counts if count]


def _needed_bytes(others: Sequence[tuple[JobRecord, int]]) -> int | None:
    """The memory that these jobs need there; None if it is unknown for one of them."""
    total_bytes = 0
    for record, count in others:
        if record.needs_bytes is None:
            return None
        total_bytes += record.needs_bytes * count // record.request["gpus"]
    return total_bytes


def _run(control: ControlState, record: JobRecord) -> PendingRun:
    job = control.job(record.id)
    place = place_of(job)
    devices = control.inventory.held(control.scheduler.ledger, place.allocation)
    is_guest = job.seating is not None
    seat = SeatOrder(is_guest, place.is_throttled, place.lane, record.lane_base, record.lane_weight)
    indices = [device["index"] for device in devices]
    return PendingRun(run_order(record, job.generation, indices, seat), record.environment)


def run_order(record: JobRecord, generation: int, devices: list[int], seat: SeatOrder) -> RunOrder:
    """Without the environment of the job."""
    request = record.request
    launch = Launch(
        command=request["command"],
        cwd=request["cwd"],
        umask=request["umask"],
        tasks=request["ntasks"],
        devices_per_task=request["gpus"] // request["ntasks"],
        limit_bytes=(request.get("gpu_mem_bytes") or 0) + (request.get("mem_bytes") or 0),
        memory_bytes=request.get("gpu_mem_bytes"),
        stdin=request.get("stdin", False),
        split=request.get("split", False),
        tty=request.get("tty"),
        array_index=record.array_index,
        cpus=request.get("cpus"),
        output=request.get("output"),
        name=record.name,
    )
    return RunOrder(record.id, record.attempt, generation, devices, launch, seat)
