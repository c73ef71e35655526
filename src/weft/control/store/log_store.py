"""The log on disk: one SQLite file. Written by one thread at a time, each instant in one transaction.

SQLite keeps no checksums: a changed bit inside a row would go unnoticed. So each row has one of its own.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from weft.control.clock import Mark
from weft.core.errors import WeftError
from weft.core.value import value
from weft.runtime.failpoints import reach

# ---- The schema: tables and keys, migration scripts, named queries, and a checksum of each row.

KEYS: Mapping[str, tuple[str, ...]] = {
    "log": ("seq",),
    "snapshots": ("seq",),
    "clock": ("only",),
    "settings": ("name",),
    "environments": ("id",),
    "jobs": ("id",),
    "requests": ("request_id",),
    "attempts": ("job", "attempt"),
}
"""The tables, and by what a row of each is named."""


COVERED: Mapping[str, tuple[str, ...]] = {
    "log": ("at", "kind", "job", "body"),
    "snapshots": ("seq", "at", "body"),
    "clock": ("at", "boot_id", "boot_s"),
    "settings": ("name", "value"),
    "requests": ("request_id", "number"),
    "jobs": (
        "id", "number", "array_index", "name", "tenant", "class", "state", "reason", "exit_code", "attempt", "is_alive",
        "failures", "losses", "preemptions", "unseats", "submitted_at", "started_at", "finished_at", "not_before",
        "ending", "run_s", "wait_s", "steps", "step_rate_hz", "persistent_bytes", "ephemeral_bytes", "overflow_bytes",
        "peak_bytes", "request",
    ),
    "attempts": (
        "job", "attempt", "devices", "lane_base", "lane_weight", "granted_at", "started_at", "ended_at", "outcome",
        "exit_code",
    ),
}  # fmt: skip
"""The environment of a job is not covered: it is taken off the row of an ended one. Environments have a digest."""


def checksum(table: str, row: Mapping[str, Any]) -> int:
    """Numbers count as floats: a column of reals returns 5.0 where 5 was written."""
    values = [row[column] for column in COVERED[table]]
    plain = [str(float(each)) if isinstance(each, int | float) else str(each) for each in values]
    return crc32("\x1f".join(plain).encode("utf-8", "surrogatepass"))


def is_intact(table: str, row: Mapping[str, Any]) -> bool:
    """Whether a row is as it was written; one without a checksum is believed."""
    return table not in COVERED or row["checksum"] is None or row["checksum"] == checksum(table, row)


NUMBERED = re.compile(r"(\d{4})-.*\.sql")


def scripts() -> list[str]:
    """The scripts that make the schema, each of which takes it from one version to the next."""
    folder = resources.files("weft.control.store").joinpath("sql")
    named = sorted(entry.name for entry in folder.iterdir() if NUMBERED.fullmatch(entry.name))
    return [folder.joinpath(name).read_text(encoding="utf-8") for name in named]


def upgrade(db: sqlite3.Connection, scripts: Sequence[str]) -> None:
    """Bring a database, or an empty file, to the newest version; each step whole or not at all."""
    try:
        version = db.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise WeftError(
            f"the log cannot be read: {error}", "is it a file of weft? move it away to begin anew"
        ) from error
    if version > len(scripts):
        raise WeftError(
            f"the log is of version {version}, and this weft knows {len(scripts)}", "use the newer weft that wrote it"
        )
    for number, script in enumerate(scripts[version:], version + 1):
        try:
            db.executescript(f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {number};\nCOMMIT;")
        except sqlite3.Error as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise WeftError(
                f"the log cannot be brought to version {number}: {error}", "it is as it was; is there room on the disk?"
            ) from error


def _queries(text: str) -> dict[str, str]:
    parts: Iterable[str] = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)[1:]
    each = iter(parts)
    return {name: query.strip() for name, query in zip(each, each, strict=True)}


QUERIES = _queries(resources.files("weft.control.store").joinpath("sql", "queries.sql").read_text(encoding="utf-8"))


# ---- The log.

FAIL_POINTS = ("control-log-begun", "control-log-written", "control-log-committed", "control-snapshot-written")

INVENTORY_SETTING = "floor"
"""The setting that holds a node and its devices: its name on disk, which may not change."""

ENVIRONMENTS_KEPT = 10_000
"""Of so many of the jobs that ended last the environment is kept, so that they can be run again."""

Row = dict[str, Any]


class StoreError(WeftError):
    """The log could not be written; what was to be written is not acknowledged, and not so."""


NOTED, REPORTED, STOPPING, ENDED, POLICY_CHANGED, SETTLED = (
    "Noted", "Reported", "Stopping", "Ended", "PolicyChanged", "Settled",
)  # fmt: skip
"""Kinds of rows that the ledger does not fold; `core.serialization.KINDS` has the others. They are on disk:
none may change."""


@value
class Fact:
    """One row of the log."""

    kind: str
    job: str | None
    body: dict[str, Any]


@value
class Batch:
    """Everything that one instant leaves on disk."""

    mark: Mark
    facts: Sequence[Fact]
    environments: Sequence[tuple[int, str, str]] = ()
    jobs: Sequence[dict[str, Any]] = ()
    attempts: Sequence[dict[str, Any]] = ()
    requests: Sequence[tuple[str, int]] = ()
    settings: Sequence[tuple[str, str]] = ()


class CommitGuard(Protocol):
    """Told of every commit. It may refuse one beforehand: the files may not be those any more that are open."""

    def check(self) -> None: ...

    def committed(self, number: int, seq: int) -> None: ...

    def close(self) -> None: ...

    @property
    def trouble(self) -> str: ...


class LogStore:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.watch: CommitGuard | None = None
        with suppress(FileExistsError):  # SQLite would make it readable to all
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        self._db = _connect(path)
        upgrade(self._db, scripts())
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._readers = threading.local()
        self._opened: list[sqlite3.Connection] = []

    def copy_to(self, other: sqlite3.Connection) -> None:
        """All that is committed, even if the file has no name any more."""
        self._db.backup(other)  # a reader that is opened now might open another file

    def close(self) -> None:
        if self.watch:
            self.watch.close()
        for reader in self._opened:
            reader.close()
        self._db.close()

    # ---- writing

    def commit(self, batch: Batch) -> int:
        """Make an instant durable; the number of the last row. On any error nothing of it is there."""
        if self.watch:
            self.watch.check()
        try:
            with self._transaction():
                reach("control-log-begun")
                self._write(batch)
                reach("control-log-written")
                last: int = self._db.execute(QUERIES["last_seq"]).fetchone()[0]
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise _refusal(error, self.path) from error
        reach("control-log-committed")
        if self.watch:
            self.watch.committed(max((row["number"] for row in batch.jobs), default=0), last)
        return last

    def _write(self, batch: Batch) -> None:
        mark, at = batch.mark, batch.mark.at
        rows = [{"at": at, "kind": fact.kind, "job": fact.job, "body": json.dumps(fact.body)} for fact in batch.facts]
        self._put("append", "log", rows)
        self._db.executemany(QUERIES["put_environment"], batch.environments)
        self._put("put_job", "jobs", batch.jobs)
        self._put("put_attempt", "attempts", batch.attempts)
        self._put(
            "put_request", "requests", [{"request_id": name, "number": number} for name, number in batch.requests]
        )
        self._put_settings(batch.settings)
        self._put("put_clock", "clock", [{"at": at, "boot_id": mark.boot_id, "boot_s": mark.boot_s}])

    def _put(self, query: str, table: str, rows: Iterable[Row]) -> None:
        """Write rows, each with its checksum."""
        self._db.executemany(QUERIES[query], [{**row, "checksum": checksum(table, row)} for row in rows])

    def _put_settings(self, settings: Sequence[tuple[str, str]]) -> None:
        self._put("put_setting", "settings", [{"name": name, "value": text} for name, text in settings])

    def put_settings(self, settings: Sequence[tuple[str, str]]) -> None:
        try:
            with self._transaction():
                self._put_settings(settings)
        except sqlite3.Error as error:
            raise _refusal(error, self.path) from error

    def put_snapshot(self, seq: int, at: float, ledger: str, keep_from: float | None) -> None:
        """Keep the ledger as it was after row `seq`, and drop what is not needed any more, unless `keep_from` is None.

        The rule of compaction: a row of the log goes when a snapshot covers it, it is older than `keep_from`, and its
        job ended before that too. The row of a job itself stays. An environment goes with the last job that has it: one
        that lives, or one of the last ENVIRONMENTS_KEPT that ended since `keep_from`.
        """
        try:
            with self._transaction():
                self._put("put_snapshot", "snapshots", [{"seq": seq, "at": at, "body": ledger}])
                self._db.execute(QUERIES["drop_older_snapshots"], (seq,))
                if keep_from is not None:
                    self._db.execute(QUERIES["drop_old_log"], (seq, keep_from))
                    self._db.execute(QUERIES["drop_old_requests"], (keep_from,))
                    self._db.execute(QUERIES["forget_environments"], (keep_from, ENVIRONMENTS_KEPT))
                    self._db.execute(QUERIES["drop_unused_environments"])
                reach("control-snapshot-written")
        except sqlite3.Error as error:
            raise _refusal(error, self.path) from error

    def leave_gap(self, seq: int, at: float) -> None:
        """Go on with rows above `seq`: another log with the same beginning has come so far."""
        row = {"at": at, "kind": "Gap", "job": None, "body": "{}"}
        try:
            with self._transaction():
                self._db.execute(QUERIES["append_at"], {**row, "seq": seq, "checksum": checksum("log", row)})
        except sqlite3.Error as error:
            raise _refusal(error, self.path) from error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    # ---- reading

    @property
    def _reader(self) -> sqlite3.Connection:
        """This thread's: sees what is committed, and never waits for a commit nor for what another thread reads."""
        if not hasattr(self._readers, "connection"):
            self._readers.connection = _connect(self.path)
            self._opened.append(self._readers.connection)
        reader: sqlite3.Connection = self._readers.connection
        return reader

    def last_mark(self) -> Mark | None:
        row = self.one("clock")
        return Mark(**row) if row else None

    def last_snapshot(self) -> tuple[int, float, dict[str, Any]] | None:
        row = self.one("last_snapshot")
        return (row["seq"], row["at"], json.loads(row["body"])) if row else None

    def rows_since_snapshot(self) -> int:
        rows: int = self._one("rows_since_snapshot")["rows"]
        return rows

    def log_after(self, seq: int) -> Iterator[tuple[float, str, dict[str, Any]]]:
        for at, kind, body in self._reader.execute(QUERIES["log_after"], (seq,)):
            yield at, kind, json.loads(body)

    def environment(self, environment_id: int) -> dict[str, str]:
        env: dict[str, str] = json.loads(self._one("environment", environment_id)["body"])
        return env

    def setting(self, name: str) -> str | None:
        row = self.one("setting", name)
        return row["value"] if row else None

    def one(self, query: str, *arguments: Any) -> Row | None:
        try:
            row = self._reader.execute(QUERIES[query], arguments).fetchone()
        except sqlite3.Error as error:
            raise _unreadable(error) from error
        return None if row is None else dict(row)

    def all(self, query: str, *arguments: Any) -> list[Row]:
        try:
            return [dict(row) for row in self._reader.execute(QUERIES[query], arguments)]
        except sqlite3.Error as error:
            raise _unreadable(error) from error

    def rows(self, query: str) -> Iterator[Sequence[Any]]:
        """The same, of many, by column."""
        cursor = self._reader.cursor()
        cursor.row_factory = None  # tuples
        try:
            yield from cursor.execute(QUERIES[query])
        except sqlite3.Error as error:
            raise _unreadable(error) from error

    def count(self, query: str, *arguments: Any) -> int:
        count: int = self._one(query, *arguments)["count"]
        return count

    def _one(self, query: str, *arguments: Any) -> Row:
        row = self.one(query, *arguments)
        assert row is not None
        return row


def _connect(path: Path) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=10.0)
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        raise _refusal(error, path) from error
    return db


def _refusal(error: Exception, path: Path) -> StoreError:
    hint = f"free some space where {path} is" if "full" in str(error) else "daemon.log may say more"
    return StoreError(f"the log cannot be written: {error}", hint)


def _unreadable(error: sqlite3.Error) -> StoreError:
    return StoreError(f"the log cannot be read: {error}", "weft doctor says more; weft down, then weft repair mends it")
