"""The schema of the log: tables and keys, migration scripts, named queries, and a checksum of each row.

SQLite keeps no checksums: a changed bit inside a row would go unnoticed.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any
from zlib import crc32

from weft.core.errors import WeftError

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
