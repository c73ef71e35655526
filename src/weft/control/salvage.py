"""All rows of a log that can still be read: by SQLite where it can, by page where it cannot."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from weft.control.checksums import COVERED
from weft.control.row_faults import KEYS, fault_of, named
from weft.control.sqlite_pages import Pages, Values
from weft.control.store import scripts, upgrade

Row = dict[str, Any]
WITHOUT_ROW_IDS = ("settings", "jobs", "requests", "attempts")
"""Tables that SQLite keeps as an index of their key: their rows have no numbers."""
AT_LEAST = {"log": 5, "snapshots": 3, "clock": 4, "settings": 2, "environments": 3, "jobs": 25, "attempts": 8}
"""Columns that a row had in the first version. A row of requests is told from one of an index by its checksum only."""


@dataclass
class Salvaged:
    rows: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=lambda: {table: {} for table in KEYS})
    """By table and key, those that are as they were written."""
    faults: list[str] = field(default_factory=list)
    """Rows that were found but are damaged."""

    def count(self, table: str) -> int:
        return len(self.rows[table])


def salvaged(database: Path, *, uses_wal: bool = True) -> Salvaged:
    """What can be read of a database, which is left as it is: a copy of it is read."""
    found = Salvaged()
    with tempfile.TemporaryDirectory(prefix="weft-repair-") as folder:
        copy = Path(folder) / "weft.db"
        suffixes = ("", "-wal") if uses_wal else ("",)
        for suffix in suffixes:
            source = Path(f"{database}{suffix}")
            if source.is_file():
                with suppress(OSError):
                    shutil.copyfile(source, f"{copy}{suffix}")
        if not copy.exists():
            return found
        content, wal = copy.read_bytes(), b""
        with suppress(OSError):
            wal = Path(f"{copy}-wal").read_bytes()
        missing = [table for table in KEYS if not _read_by_sqlite(copy, table, found)]
    if missing:
        _read_by_page(Pages(content, wal), missing, found)
    return found


@cache
def columns() -> Mapping[str, list[tuple[str, str]]]:
    """The columns of each table, in the order they are on disk, with their types."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        upgrade(db, scripts())
        return {
            table: [(row[1], row[2]) for row in db.execute("SELECT * FROM pragma_table_info(?)", (table,))]
            for table in KEYS
        }


def _read_by_sqlite(copy: Path, table: str, found: Salvaged) -> bool:
    """Whether SQLite could read the whole table. Each with a connection of its own: one error may spoil the next."""
    try:
        with closing(sqlite3.connect(copy)) as db:
            db.row_factory = sqlite3.Row
            db.text_factory = lambda content: content.decode("utf-8", "surrogateescape")
            rows = [dict(row) for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608 - a name of KEYS
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    filled = [{name: row.get(name, _default(name)) for name, _ in columns()[table]} for row in rows]
    _take(table, filled, found)
    return True


def _read_by_page(pages: Pages, wanted: Iterable[str], found: Salvaged) -> None:
    known = columns()
    shapes = {table: known[table] for table in wanted}
    for row_id, values in pages.rows():
        for table, shape in shapes.items():
            row = _shaped(table, shape, row_id, values)
            if row is not None and fault_of(table, row) is None:
                _take(table, [row], found)
                break


def _shaped(table: str, shape: list[tuple[str, str]], row_id: int | None, values: Values) -> Row | None:
    """The row of a table that these values can be; None if they cannot."""
    if (row_id is None) != (table in WITHOUT_ROW_IDS) or not AT_LEAST.get(table, 3) <= len(values) <= len(shape):
        return None
    row: Row = {}
    for (name, kind), value in zip(shape, values, strict=False):
        if name == KEYS[table][0] and row_id is not None:
            row[name] = row_id
        elif value is None:
            row[name] = None
        elif not isinstance(value, {"TEXT": str, "INTEGER": int, "REAL": (int, float)}[kind]):  # type: ignore[arg-type]
            return None
        else:
            row[name] = float(value) if kind == "REAL" else value
    row |= {name: _default(name) for name, _ in shape[len(values) :]}
    is_certain = table not in COVERED or row["checksum"] is not None or table in AT_LEAST
    return row if is_certain and all(row[key] is not None for key in KEYS[table]) else None


def _default(column: str) -> int | None:
    """Of columns that were added later."""
    return {"checksum": None, "lane_weight": 1}.get(column, 0)


def _take(table: str, rows: Iterable[Row], found: Salvaged) -> None:
    """Of two versions of a row, pages that are not in use any more may have the older."""
    for row in rows:
        if fault := fault_of(table, row):
            found.faults.append(f"{named(table, row)}: {fault}")
            continue
        key = tuple(row[column] for column in KEYS[table])
        before = found.rows[table].get(key)
        if before is None or _progress(table, row) >= _progress(table, before):
            found.rows[table][key] = row


def _progress(table: str, row: Row) -> tuple[Any, ...]:
    if table == "jobs":
        return row["finished_at"] is not None, row["attempt"], row["run_s"] + row["wait_s"]
    if table == "attempts":
        return row["ended_at"] is not None, row["started_at"] is not None
    return (row["at"],) if table == "clock" else ()
