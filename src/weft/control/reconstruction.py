"""A new log from rows that were recovered."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from weft.control.checksums import COVERED, checksum
from weft.control.clock import Clock
from weft.control.dependencies import Awaited, hold_for, terms_of
from weft.control.floor import floor_of
from weft.control.fold import load_desk
from weft.control.reconciliation import Idle, OnDisk, last_seq
from weft.control.record import spec_for
from weft.control.row_faults import KEYS, named
from weft.control.salvage import Row, Salvaged, columns
from weft.control.store import Store, scripts, upgrade
from weft.core.events import Event, Held, NodeJoined, Submitted
from weft.core.ledger import Ledger
from weft.core.reasons import Code, Reason
from weft.core.scheduler import Scheduler
from weft.core.snapshot import snapshot
from weft.core.values import Cluster

ORDER = ("settings", "clock", "environments", "jobs", "attempts", "requests", "log", "snapshots")
NO_ENVIRONMENT = "its environment was lost when the log was damaged"


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


def make_foldable(store: Store) -> bool:
    """Whether the snapshot and the log could be used; if not, there is a new snapshot, made from the rows of jobs."""
    try:
        desk = load_desk(store, Idle(), {})
        desk.scheduler.ledger.validate()
        is_whole = desk.scheduler.ledger.jobs.keys() == desk.records.keys() and not _gap(store)
    except Exception:  # noqa: BLE001 - whatever it is, the rows do not tell one story
        is_whole = False
    if not is_whole:
        now = Clock(store.last_mark()).now()
        store.put_snapshot(last_seq(store) + 1, now, json.dumps(snapshot(_ledger(store, now))), 0.0)
    return is_whole


def _with_log(sources: Sequence[Salvaged]) -> Salvaged | None:
    return next((each for each in sources if each.rows["log"] or each.rows["snapshots"]), None)


def _gap(store: Store) -> bool:
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


def _ledger(store: Store, now: float) -> Ledger:
    """The ledger that live jobs have by their rows: none holds a device, each keeps what it has had."""
    ledger = Ledger(Cluster(()))
    scheduler = Scheduler(ledger, Idle())
    rows = store.all("live_rows")
    begin = min([now, *(row["submitted_at"] for row in rows)])
    for node in floor_of(store.setting("floor")).nodes:
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
