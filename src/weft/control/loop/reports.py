"""Handle what the node reports: its devices, what became of attempts, and what it measured."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.control.loop.dispatch import launch
from weft.control.loop.inputs import AttemptReport, Measurement, NodeConnected, NodeDevices, ProgressReport
from weft.control.loop.inventory import Inventory, computing
from weft.control.loop.job_record import JobRecord
from weft.control.loop.lifecycle import attempt_ended, attempt_gone, never_began
from weft.control.store.log_store import INVENTORY_SETTING, REPORTED
from weft.core.events import DevicesBlocked, Grown, Measured, NodeJoined, NodeLost, Progressed, Stepped
from weft.core.job import Job
from weft.protocol import LARGEST

if TYPE_CHECKING:
    from weft.control.loop.control_state import ControlState
REBOOTED = "the machine was restarted"

GROWN_BYTES, GROWN = 1 << 20, 0.05
"""Least growth that counts: allocations differ a little from step to step."""


def hello(control: ControlState, message: NodeConnected, now: float) -> None:
    """Coordinator reconnected: resend the full desired state, with what this instant decides."""
    control.must_tell_all = True
    if message.boot_id != control.boot_id:
        control.out.settings.append(("boot id", message.boot_id))
        for record in control.live_jobs.alive_after() if control.boot_id else ():
            if (record.id, record.attempt) not in message.attempts:
                report(
                    control,
                    AttemptReport(record.id, record.attempt, "lost", {"message": REBOOTED, "unseen": True}),
                    now,
                )
        control.boot_id = message.boot_id
    control.settling = {(one.id, one.attempt) for one in control.live_jobs.alive.values()} & message.ended
    _set_inventory(control, Inventory(message.node, message.devices, message.cpus), now)


def devices(control: ControlState, message: NodeDevices, now: float) -> None:
    _set_inventory(control, Inventory(control.inventory.machine, message.devices, control.inventory.cpus), now)


def block(control: ControlState, now: float) -> None:
    """Devices that other programs use are not ours to give, as soon as no job of ours is on them."""
    devices = control.scheduler.ledger.devices
    for name, mask in control.inventory.blocked_masks().items():
        at = devices.index_of(name)
        if at is not None and devices.blockable(at, mask) != devices.blocked_masks[at]:
            control.apply(DevicesBlocked(name, mask), now)


def report(control: ControlState, message: AttemptReport, now: float) -> None:
    record = control.records.get(message.job_id)
    if record is None or not record.is_alive or record.attempt != message.attempt:
        return  # reports from superseded attempts, and repeated ones, are ignored
    control.settling.discard((record.id, record.attempt))
    body = {key: value for key, value in message.body.items() if key != "progress"}
    control.note(REPORTED, record.id, {"what": message.what, "attempt": message.attempt, **body})
    match message.what:
        case "started":
            record.pids = tuple(message.body.get("pids", ()))
            record.attempt_started_at = record.attempt_started_at or now
            record.started_at = record.started_at or now
            control.out.attempts[record.id, record.attempt] = record.attempt_row()
        case "paused":
            _progress(control, record, int(message.body["step"]), now)
        case "left" if record.ending is None:
            _progress(control, record, int(message.body["step"]), now)
            record.learn(message.body.get("progress") or {})
            attempt_gone(control, record, "left", None, now)
            if control.job(record.id).is_computing:
                launch(control, record, now)
        case "lost" if message.body.get("never") and record.ending is None:
            never_began(control, record, now)
        case "ended" | "lost" | "left" | "refused":
            attempt_ended(control, record, message, now)


def _set_inventory(control: ControlState, inventory: Inventory, now: float) -> None:
    before, control.inventory = control.inventory, inventory
    if not before.is_same_hardware(inventory):
        control.must_tell_all = True  # running jobs may have lost their devices, or have others now
        control.touched |= {job.id: None for job in computing(control.scheduler.ledger)}
        for node in before.nodes:
            control.apply(NodeLost(node.name), now)
        for node in inventory.nodes:
            control.apply(NodeJoined(node), now)
    elif before.cpus != inventory.cpus:
        inventory.describe(control.scheduler.ledger)
    control.out.settings.append((INVENTORY_SETTING, json.dumps(inventory.plain())))


def _progress(control: ControlState, record: JobRecord, step: int, now: float) -> None:
    record.steps = step or record.steps  # an attempt that was paused before it began has made none
    if step and record.request.get("steps"):
        control.apply(Progressed(record.id, control.job(record.id).generation, float(step)), now)


def progress(control: ControlState, message: ProgressReport, now: float) -> None:
    """Progress is not logged, since it comes again a second later; a first step and growth are."""
    for job_id, said in message.jobs.items():
        record = control.records.get(job_id)
        if record is None or record.attempt != said.get("attempt"):
            continue
        record.note(said)
        for found in (first_step_of(control, job_id, said), growth_of(control, job_id, said)):
            if found is not None:
                measured(control, found, now)


def growth_of(control: ControlState, job_id: str, progress: Mapping[str, Any]) -> Measurement | None:
    """Detect from a progress report that a job needs more memory than is known."""
    record, sizes = control.records.get(job_id), progress.get("needs_bytes")
    if record is None or not record.is_alive or record.ending:
        return None
    if not isinstance(sizes, list | tuple) or len(sizes) != 2 or not all(map(_is_quantity, sizes)):
        return None
    if not isinstance(progress.get("generation"), int):
        return None
    grown = Grown(job_id, progress["generation"], *map(int, sizes))
    return Measurement(record.attempt, grown) if _is_news(grown, control.job(job_id)) else None


def first_step_of(control: ControlState, job_id: str, progress: Mapping[str, Any]) -> Measurement | None:
    """Detect from a progress report the first step of an attempt, if none is logged yet."""
    record = control.records.get(job_id)
    if record is None or not record.is_alive or not _is_quantity(progress.get("step")) or not progress["step"]:
        return None
    job = control.job(job_id)
    return Measurement(record.attempt, Stepped(job_id, job.generation)) if job.startup_left_s else None


def measured(control: ControlState, message: Measurement, now: float) -> None:
    """Only measurements under the job's present lease count; others are too late."""
    record = control.records.get(message.measured.job_id)
    if record is None or not record.is_alive or record.ending or record.attempt != message.attempt:
        return
    job = control.job(record.id)
    if isinstance(message.measured, Stepped):
        if job.startup_left_s and job.generation == message.measured.generation:
            control.apply(message.measured, now)
        return
    if not job.is_computing or job.generation != message.measured.generation:
        return
    if isinstance(message.measured, Measured):
        control.apply(_with_known_memory(message.measured, job), now)
    elif _is_news(message.measured, job):
        control.apply(message.measured, now)


def _is_news(told: Grown, job: Job) -> bool:
    """More in all, or persistently, which in a lane counts for more. Of a job never measured its declaration counts."""
    known = job.memory if job.measured and job.generation == told.generation else None
    if known is None:
        return False
    known_bytes = known.persistent_bytes + known.ephemeral_bytes
    least_bytes = max(GROWN_BYTES, GROWN * known_bytes)
    is_more = told.persistent_bytes + told.ephemeral_bytes - known_bytes > least_bytes
    return is_more or told.persistent_bytes - known.persistent_bytes > least_bytes


def _with_known_memory(told: Measured, job: Job) -> Measured:
    """Keep the last known memory if none is measured now: a driver may fail to answer for a moment."""
    before = job.measured
    if told.persistent_bytes is not None or before is None:
        return told
    return replace(told, persistent_bytes=before.persistent_bytes, ephemeral_bytes=before.ephemeral_bytes)


def interference_ratio(job: Job, beside: Collection[str]) -> float | None:
    """Its rate beside these jobs relative to its rate alone; None until both are measured."""
    measured, alone = job.measured, job.alone
    if measured is None or alone is None or not beside or set(measured.neighbours) != set(beside):
        return None
    ratio = measured.rate_hz / alone.rate_hz if alone.rate_hz else math.inf
    return round(ratio, 4) if math.isfinite(ratio) else None


def _is_quantity(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= LARGEST
