"""What nodes say: that they are there, with which devices, and what became of attempts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.control.company import computing
from weft.control.decisions import launch
from weft.control.endings import end
from weft.control.floor import Floor
from weft.control.inputs import Devices, Hello, Report
from weft.control.record import Ending, Loss, Record
from weft.control.retrying import ending_of
from weft.control.store import REPORTED
from weft.core.events import DevicesBlocked, Held, Lost, NodeJoined, NodeLost, Progressed
from weft.core.reasons import Code, Reason

if TYPE_CHECKING:
    from weft.control.desk import Desk

REBOOTED = "the machine was restarted"


def hello(desk: Desk, word: Hello, now: float) -> None:
    """It may have forgotten everything, and is told everything, with what this instant brings."""
    desk.must_tell_all = True
    if word.boot_id != desk.boot_id:
        desk.out.settings.append(("boot id", word.boot_id))
        for record in desk.roster.alive_after() if desk.boot_id else ():
            if (record.id, record.attempt) not in word.attempts:
                report(desk, Report(record.id, record.attempt, "lost", {"message": REBOOTED, "unseen": True}), now)
        desk.boot_id = word.boot_id
    desk.settling = {(one.id, one.attempt) for one in desk.roster.alive.values()} & word.ended
    _furnish(desk, Floor(word.node, word.devices, word.cpus), now)


def devices(desk: Desk, word: Devices, now: float) -> None:
    _furnish(desk, Floor(desk.floor.machine, word.devices, desk.floor.cpus), now)


def block(desk: Desk, now: float) -> None:
    """Devices that somebody else uses are not for us, as soon as no job of ours is on them."""
    devices = desk.scheduler.ledger.devices
    for name, mask in desk.floor.blocked_masks().items():
        at = devices.index_of(name)
        if at is not None and devices.blockable(at, mask) != devices.blocked_masks[at]:
            desk.tell(DevicesBlocked(name, mask), now)


def report(desk: Desk, word: Report, now: float) -> None:
    record = desk.records.get(word.job_id)
    if record is None or not record.is_alive or record.attempt != word.attempt:
        return  # late, or said twice
    desk.settling.discard((record.id, record.attempt))
    body = {key: value for key, value in word.body.items() if key != "progress"}
    desk.note(REPORTED, record.id, {"what": word.what, "attempt": word.attempt, **body})
    match word.what:
        case "started":
            record.pids = tuple(word.body.get("pids", ()))
            record.attempt_started_at = record.attempt_started_at or now
            record.started_at = record.started_at or now
            desk.out.attempts[record.id, record.attempt] = record.attempt_row()
        case "paused":
            _progress(desk, record, int(word.body["step"]), now)
        case "left" if record.ending is None:
            _progress(desk, record, int(word.body["step"]), now)
            record.learn(word.body.get("progress") or {})
            _gone(desk, record, "left", None, now)
            if desk.job(record.id).is_computing:
                launch(desk, record, now)
        case "lost" if word.body.get("never") and record.ending is None:
            _never_began(desk, record, now)
        case "ended" | "lost" | "left" | "refused":
            _ended(desk, record, word, now)


def _never_began(desk: Desk, record: Record, now: float) -> None:
    """The order to run it never reached the node: that is nobody's loss."""
    _gone(desk, record, "lost", None, now)
    if desk.job(record.id).is_computing:
        launch(desk, record, now)


def _furnish(desk: Desk, floor: Floor, now: float) -> None:
    before, desk.floor = desk.floor, floor
    if not before.is_same_hardware(floor):
        desk.must_tell_all = True  # who ran may have lost its devices, or have others now
        desk.touched |= {job.id: None for job in computing(desk.scheduler.ledger)}
        for node in before.nodes:
            desk.tell(NodeLost(node.name), now)
        for node in floor.nodes:
            desk.tell(NodeJoined(node), now)
    elif before.cpus != floor.cpus:
        floor.describe(desk.scheduler.ledger)
    desk.out.settings.append(("floor", json.dumps(floor.plain())))


def _progress(desk: Desk, record: Record, step: int, now: float) -> None:
    record.steps = step or record.steps  # an attempt that was paused before it began has made none
    if step and record.request.get("steps"):
        desk.tell(Progressed(record.id, desk.job(record.id).generation, float(step)), now)


def _ended(desk: Desk, record: Record, word: Report, now: float) -> None:
    exit_code = word.body.get("exit_code")
    record.note(word.body.get("progress") or {})
    if word.what == "ended":  # it was over before anybody could say that it had begun
        record.started_at = record.started_at or record.granted_at
    _gone(desk, record, "lost" if word.what == "refused" else word.what, exit_code, now)
    message, was_with_weft = str(word.body.get("message", "")), word.body.get("unseen") is True
    ending = record.ending or ending_of(record, word.what, exit_code, message, was_with_weft=was_with_weft)
    if ending.retry_in_s is None:
        end(desk, record, ending, now)
    else:
        record.failures += word.what == "ended"
        step = int(word.body.get("checkpoint_step", 0))
        if word.what == "lost":
            record.losses += 1
            record.loss = Loss(record.attempt, now, message, step)
            desk.roster.lost[record.id] = record
        _try_again(desk, record, ending, ending.retry_in_s, step, now)


def _try_again(desk: Desk, record: Record, ending: Ending, in_s: float, step: int, now: float) -> None:
    """Its next attempt begins at this step, and so do its steps as they are shown and reckoned with."""
    record.begin_again(step)
    desk.tell(Lost(record.id, desk.job(record.id).generation), now)
    if record.request.get("steps"):
        desk.tell(Progressed(record.id, desk.job(record.id).generation, float(step)), now)
    if in_s:
        desk.tell(Held(record.id, Reason(Code.BACKING_OFF, (record.attempt, ending.reason, f"{in_s:g}"))), now)
        record.not_before = now + in_s
        desk.roster.backing_off[record.id] = record


def _gone(desk: Desk, record: Record, outcome: str, exit_code: int | None, now: float) -> None:
    record.is_alive, record.pids = False, ()
    desk.roster.alive.pop(record.id, None)
    row = record.attempt_row(ended_at=now, outcome=outcome, exit_code=exit_code)
    desk.out.attempts[record.id, record.attempt] = row
