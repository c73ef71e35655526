"""A new log from recovered rows, reconciled with the attempts that are on disk.

A log that goes back in time is behind the numbers that were given and the attempts that were started since. A job whose
newest attempt on disk the log knows is left to run. An attempt that is newer than the log's is not known to it: its job
gets a later attempt, and the coordinator ends the older one first. A job that the log does not know is taken back from
the record of its attempt. Numbers are never given twice.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from weft.control.api.request_schemas import JobRequest
from weft.control.clock import Clock
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import InstantOutcome
from weft.control.loop.inventory import inventory_of
from weft.control.loop.job_record import JobRecord, spec_for
from weft.control.loop.job_state import Awaited, hold_for, terms_of
from weft.control.store.integrity import named
from weft.control.store.log_store import (
    COVERED,
    INVENTORY_SETTING,
    KEYS,
    SETTLED,
    Batch,
    LogStore,
    checksum,
    scripts,
    upgrade,
)
from weft.control.store.replay import load_control_state
from weft.control.store.salvage import Row, Salvaged, columns
from weft.control.store.watermark import Watermark
from weft.core.errors import WeftError
from weft.core.events import Event, Held, Lost, NodeJoined, Submitted
from weft.core.ledger import Ledger
from weft.core.plan import Plan
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.snapshot import snapshot
from weft.core.values import Cluster
from weft.core.view import View
from weft.node.attempt import records
from weft.system.home import Home

ORDER = ("settings", "clock", "environments", "jobs", "attempts", "requests", "log", "snapshots")
NO_ENVIRONMENT = "its environment was lost when the log was damaged"
JOB_ID = re.compile(r"([1-9][0-9]{0,14})(?:_([0-9]{1,9}))?")
KEPT_S = 30 * 86_400.0
OnDisk = Mapping[str, Mapping[int, records.AttemptRecord | None]]


def merged(sources: Sequence[Salvaged]) -> Salvaged:
    """The rows of several, of the first that has them. The log and its snapshots go together: they are of one."""
    found = Salvaged()
    for source in sources:
        for table in KEYS:
            is_whole = table in ("log", "snapshots") and source is not _with_log(sources)
            for key, row in {} if is_whole else source.rows[table].items():
                found.rows[table].setdefault(key, row)
    return found


def with_environments(rows: Salvaged, on_disk: OnDisk) -> Salvaged:
    """With the environments that are missing, as far as an attempt on disk was launched with one."""
    known = rows.rows["environments"]
    for row in rows.rows["jobs"].values():
        attempts = on_disk.get(row["id"])
        found = attempts[max(attempts)] if attempts else None
        if found is not None and row["environment"] is not None and (row["environment"],) not in known:
            body = json.dumps(found.launch.get("env") or {}, sort_keys=True)
            digest = sha256(body.encode()).hexdigest()
            known[row["environment"],] = {"id": row["environment"], "digest": digest, "body": body}
    return rows


def write_database(path: Path, rows: Salvaged) -> list[str]:
    """A database with these rows, each with its checksum; what does not fit together is left out, and returned."""
    left_out = []
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        upgrade(db, scripts())
        db.execute("PRAGMA synchronous = OFF")
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("BEGIN")
        for table in ORDER:
            names = [name for name, _ in columns()[table]]
            marks = ", ".join(f":{name}" for name in names)
            insert = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - names of the schema
            for row in _checked(table, rows):
                try:
                    db.execute(insert, row)
                except sqlite3.Error as error:
                    left_out.append(f"{named(table, row)}: {error}")
        db.execute("COMMIT")
    return left_out


def make_foldable(store: LogStore) -> bool:
    """Whether the snapshot and the log could be used; if not, there is a new snapshot, made from the rows of jobs."""
    try:
        control = load_control_state(store, IdlePolicy(), {})
        control.scheduler.ledger.validate()
        is_whole = control.scheduler.ledger.jobs.keys() == control.records.keys() and not _gap(store)
    except Exception:  # noqa: BLE001 - whatever it is, the rows do not tell one story
        is_whole = False
    if not is_whole:
        now = Clock(store.last_mark()).now()
        store.put_snapshot(last_seq(store) + 1, now, json.dumps(snapshot(_ledger(store, now))), 0.0)
    return is_whole


def _with_log(sources: Sequence[Salvaged]) -> Salvaged | None:
    return next((each for each in sources if each.rows["log"] or each.rows["snapshots"]), None)


def _gap(store: LogStore) -> bool:
    taken = store.last_snapshot()
    since = taken[0] if taken else 0
    last = store.one("last_seq")
    return last is not None and store.rows_since_snapshot() != max(0, last["seq"] - since)


def _checked(table: str, rows: Salvaged) -> list[Row]:
    found = []
    environments = {row["id"] for row in rows.rows["environments"].values()}
    for row in rows.rows[table].values():
        if table == "jobs":
            row = _with_environment(row, environments)
        found.append({**row, "checksum": checksum(table, row)} if table in COVERED else row)
    return found


def _with_environment(row: Row, known: set[int]) -> Row:
    """A live job without its environment cannot be started: it has failed."""
    if row["environment"] is None or row["environment"] in known:
        return row
    if row["finished_at"] is not None:
        return {**row, "environment": None}
    ended = {"state": "FAILED", "reason": NO_ENVIRONMENT, "finished_at": row["submitted_at"], "is_alive": 0}
    return {**row, **ended, "environment": None}


def _ledger(store: LogStore, now: float) -> Ledger:
    """The ledger that live jobs have by their rows: none holds a device, each keeps what it has had."""
    ledger = Ledger(Cluster(()))
    scheduler = Scheduler(ledger, IdlePolicy())
    rows = store.all("live_rows")
    begin = min([now, *(row["submitted_at"] for row in rows)])
    for node in inventory_of(store.setting(INVENTORY_SETTING)).nodes:
        scheduler.record([NodeJoined(node)], begin)
    live = {row["id"] for row in rows}
    places: dict[int, int] = {}
    for row in rows:
        place = places[row["number"]] = places.get(row["number"], -1) + 1
        request = json.loads(row["request"])
        events: list[Event] = [Submitted(spec_for(row["id"], request, {}))]
        events += [Held(row["id"], reason) for reason in _holds(row, request, live, place)]
        scheduler.record(events, now)
        job = ledger.jobs[row["id"]]
        job.settled_run_s, job.settled_wait_s = row["run_s"], row["wait_s"]
        job.generation = row["attempt"] + row["preemptions"] + row["unseats"]
    ledger.changes.clear()
    return ledger


def _holds(row: Mapping[str, Any], request: Mapping[str, Any], live: set[str], place: int) -> list[Reason]:
    found = [Reason(Code.HELD)] if request.get("hold") and not row["attempt"] else []
    terms = terms_of(request.get("after") or ())
    awaited = {each for each in live if each in terms or each.partition("_")[0] in terms}
    if awaited:
        found.append(hold_for(Awaited(terms, awaited)))
    limit = request.get("array_limit")
    if limit is not None and place >= limit:
        found.append(Reason(Code.ARRAY_LIMIT, (limit,)))
    if row["not_before"] is not None:
        found.append(Reason(Code.BACKING_OFF, (row["attempt"], "tried again", "0")))
    if row["ending"] is not None:
        found.append(Reason(Code.ENDING, (json.loads(row["ending"])[1],)))
    return found


@dataclass
class Settlement:
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


class IdlePolicy:
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


def settle(store: LogStore, on_disk: OnDisk, reached: Watermark, instance: str) -> Settlement:
    """Bring a log to where a daemon can go on from, in one commit and a snapshot.

    It goes on above all that was `reached` before: so of two logs with the same beginning, the later one is the one
    in use. `instance` tells it from the file that it replaces.
    """
    control = load_control_state(store, IdlePolicy(), {})
    now = Clock(store.last_mark()).now()
    control.out, control.touched = InstantOutcome(), {}
    done = Settlement()
    for job_id in sorted(on_disk, key=_in_order):
        attempts = on_disk[job_id]
        if job_id in control.records:
            _meet(control, control.records[job_id], attempts, done, now)
        elif store.one("job", job_id) is None:
            _take_back(control, job_id, attempts, done, now)
    numbers = [_in_order(job_id)[0] for job_id in on_disk]
    last_number = max([reached.number, control.live_jobs.last_number, *numbers])
    out = control.out
    for job_id in control.touched:
        job = control.job(job_id)
        spent = {"run_s": job.held_s(now), "wait_s": job.wait_s(now)}
        out.rows[job_id] = control.records[job_id].row(control.job_state(job_id), **spent)
    settings = [("log id", reached.log), ("instance", instance), ("last number", str(last_number))]
    control.note(SETTLED, None, {"last_number": last_number})
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
    store.put_snapshot(seq, now, json.dumps(snapshot(control.scheduler.ledger)), now - KEPT_S)
    load_control_state(store, IdlePolicy(), {}).scheduler.ledger.validate()
    done.live = list(control.records)
    return done


def _meet(
    control: ControlState,
    record: JobRecord,
    attempts: Mapping[int, records.AttemptRecord | None],
    done: Settlement,
    now: float,
) -> None:
    newest, job = max(attempts), control.job(record.id)
    job.generation = max([job.generation, *(each.generation for each in attempts.values() if each)])
    if newest <= record.attempt:
        if record.is_alive:
            done.kept.append(record.id)
        return
    if record.is_alive:
        record.is_alive, record.pids = False, ()
        row = record.attempt_row(ended_at=now, outcome="lost")
        control.out.attempts[record.id, record.attempt] = row
        generation = job.generation
        control.apply(Lost(record.id, generation), now)
    record.attempt = newest
    control.touched[record.id] = None
    done.repeated.append(record.id)


def _take_back(
    control: ControlState,
    job_id: str,
    attempts: Mapping[int, records.AttemptRecord | None],
    done: Settlement,
    now: float,
) -> None:
    """It holds no devices in the log: it is paused until the policy gives it some, and goes on where it is."""
    newest = max(attempts)
    found = attempts[newest]
    request = _request(found) if found else None
    if found is None or request is None:
        done.unknown.append(job_id)
        return
    number, index = _in_order(job_id)
    environment, row = control.live_jobs.keep(found.launch.get("env") or {})
    control.out.environments += [row] if row else []
    record = JobRecord(job_id, number, None if index < 0 else index, request, environment, now, attempt=newest)
    record.is_alive, record.started_at, record.granted_at, record.attempt_started_at = True, now, now, now
    control.live_jobs.add(record)
    control.apply(Submitted(spec_for(job_id, request, {})), now)
    control.job(job_id).generation = found.generation
    control.out.attempts[job_id, newest] = record.attempt_row()
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


def last_seq(store: LogStore) -> int:
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
