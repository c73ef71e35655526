"""A log that goes back in time meets what has happened since: numbers that were given, attempts that are on disk.

A job whose newest attempt on disk the log knows is left to run. An attempt that is newer than the log's is not known
to it: its job gets a later attempt, and the coordinator ends the older one first. A job that the log does not know is
taken back from the record of its attempt. Numbers are never given twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from weft.control.clock import Clock
from weft.control.desk import Desk
from weft.control.fold import load_desk
from weft.control.models import JobRequest
from weft.control.outcome import Outcome
from weft.control.record import Record, spec_for
from weft.control.store import SETTLED, Batch, Store
from weft.control.watermark import Watermark
from weft.core.errors import WeftError
from weft.core.events import Lost, Submitted
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.snapshot import snapshot
from weft.core.view import View
from weft.home import Home
from weft.node.attempt import records

JOB_ID = re.compile(r"([1-9][0-9]{0,14})(?:_([0-9]{1,9}))?")
KEPT_S = 30 * 86_400.0

OnDisk = Mapping[str, Mapping[int, records.AttemptRecord | None]]


@dataclass
class Settled:
    """What became of the jobs, by their ids."""

    live: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """With an attempt on disk that goes on."""
    repeated: list[str] = field(default_factory=list)
    """With an attempt on disk that the log did not know: it is ended, and a later one started."""
    recovered: list[str] = field(default_factory=list)
    """That were taken back from the records of their attempts."""
    unknown: list[str] = field(default_factory=list)
    """With attempts on disk whose records cannot be read: these are ended."""


class Idle:
    """A policy that starts nothing."""

    def decide(self, view: View) -> Plan:
        return Plan()

    def explain(self, view: View, job: Any) -> Reason:
        return Reason(Code.HELD)


def attempts_on_disk(home: Home) -> OnDisk:
    """The attempts whose end has not been acknowledged, with their records; None for one that cannot be read."""
    found: dict[str, dict[int, records.AttemptRecord | None]] = {}
    for folder in (home.root / "jobs").glob("*/attempts/*"):
        job_id = folder.parent.parent.name
        if JOB_ID.fullmatch(job_id) and folder.name.isdecimal() and len(folder.name) < 10 and folder.is_dir():
            record = None
            with suppress(OSError, WeftError, ValueError, TypeError):
                record = records.read_record(home, job_id, int(folder.name))
            found.setdefault(job_id, {})[int(folder.name)] = record
    return found


def settle(store: Store, on_disk: OnDisk, reached: Watermark, instance: str) -> Settled:
    """Bring a log to where a daemon can go on from, in one commit and a snapshot.

    It goes on above all that was `reached` before: so of two logs with the same beginning, the later one is the one
    in use. `instance` tells it from the file that it replaces.
    """
    desk = load_desk(store, Idle(), {})
    now = Clock(store.last_mark()).now()
    desk.out, desk.touched = Outcome(), {}
    done = Settled()
    for job_id in sorted(on_disk, key=_in_order):
        attempts = on_disk[job_id]
        if job_id in desk.records:
            _meet(desk, desk.records[job_id], attempts, done, now)
        elif store.one("job", job_id) is None:
            _take_back(desk, job_id, attempts, done, now)
    numbers = [_in_order(job_id)[0] for job_id in on_disk]
    last_number = max([reached.number, desk.roster.last_number, *numbers])
    out = desk.out
    for job_id in desk.touched:
        job = desk.job(job_id)
        spent = {"run_s": job.held_s(now), "wait_s": job.wait_s(now)}
        out.rows[job_id] = desk.records[job_id].row(desk.state(job_id), **spent)
    settings = [("log id", reached.log), ("instance", instance), ("last number", str(last_number))]
    desk.note(SETTLED, None, {"last_number": last_number})
    batch = Batch(
        Clock(store.last_mark()).mark(now),
        out.facts,
        out.environments,
        list(out.rows.values()),
        list(out.attempts.values()),
        settings=settings,
    )
    store.leave_gap(max(reached.seq, last_seq(store)) + 1, now)
    seq = store.commit(batch)
    store.put_snapshot(seq, now, json.dumps(snapshot(desk.scheduler.ledger)), now - KEPT_S)
    load_desk(store, Idle(), {}).scheduler.ledger.validate()
    done.live = list(desk.records)
    return done


def _meet(
    desk: Desk, record: Record, attempts: Mapping[int, records.AttemptRecord | None], done: Settled, now: float
) -> None:
    newest, job = max(attempts), desk.job(record.id)
    job.generation = max([job.generation, *(each.generation for each in attempts.values() if each)])
    if newest <= record.attempt:
        if record.is_alive:
            done.kept.append(record.id)
        return
    if record.is_alive:
        record.is_alive, record.pids = False, ()
        row = record.attempt_row(ended_at=now, outcome="lost")
        desk.out.attempts[record.id, record.attempt] = row
        generation = job.generation
        desk.tell(Lost(record.id, generation), now)
    record.attempt = newest
    desk.touched[record.id] = None
    done.repeated.append(record.id)


def _take_back(
    desk: Desk, job_id: str, attempts: Mapping[int, records.AttemptRecord | None], done: Settled, now: float
) -> None:
    """It holds no devices in the log: it is paused until the policy gives it some, and goes on where it is."""
    newest = max(attempts)
    found = attempts[newest]
    request = _request(found) if found else None
    if found is None or request is None:
        done.unknown.append(job_id)
        return
    number, index = _in_order(job_id)
    environment, row = desk.roster.keep(found.launch.get("env") or {})
    desk.out.environments += [row] if row else []
    record = Record(job_id, number, None if index < 0 else index, request, environment, now, attempt=newest)
    record.is_alive, record.started_at, record.granted_at, record.attempt_started_at = True, now, now, now
    desk.roster.add(record)
    desk.tell(Submitted(spec_for(job_id, request, {})), now)
    desk.job(job_id).generation = found.generation
    desk.out.attempts[job_id, newest] = record.attempt_row()
    done.recovered.append(job_id)


def _request(found: records.AttemptRecord) -> dict[str, Any] | None:
    """A request that would be launched as this attempt was."""
    try:
        launch = found.launch
        asked = JobRequest.model_validate(
            {
                "command": launch["command"],
                "cwd": launch["cwd"],
                "umask": launch["umask"],
                "ntasks": launch["tasks"],
                "gpus": launch["tasks"] * launch["devices_per_task"],
                "gpu_mem_bytes": launch.get("memory_bytes"),
                "stdin": bool(launch.get("stdin")),
                "split": bool(launch.get("split")),
            }
        )
    except (KeyError, TypeError, ValueError):
        return None
    return {**asked.complete(), "awaits": []}


def last_seq(store: Store) -> int:
    """The last row that the log or a snapshot of it has come to."""
    last, taken = store.one("last_seq"), store.last_snapshot()
    return max(int(last["seq"]) if last else 0, taken[0] if taken else 0)


def _in_order(job_id: str) -> tuple[int, int]:
    match = JOB_ID.fullmatch(job_id)
    assert match
    return int(match[1]), int(match[2]) if match[2] else -1


def listed(ids: Iterable[str], most: int = 20) -> str:
    """Ids in a sentence."""
    every = list(ids)
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")
