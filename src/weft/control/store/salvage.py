"""All rows of a log that can still be read: by SQLite where it can, by page where it cannot.

SQLite reads a table from its root: one bad page on the way hides all pages below it. Here every page that looks like
one with rows is read by itself, so only what was on the bad page is lost. The file format is at
sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from weft.control.store.integrity import fault_of, named
from weft.control.store.log_store import COVERED, KEYS, scripts, upgrade

Row = dict[str, Any]
WITHOUT_ROW_IDS = ("settings", "jobs", "requests", "attempts")
"""Tables that SQLite keeps as an index of their key: their rows have no numbers."""
AT_LEAST = {"log": 5, "snapshots": 3, "clock": 4, "settings": 2, "environments": 3, "jobs": 25, "attempts": 8}
"""Columns that a row had in the first version. A row of requests is told from one of an index by its checksum only."""
Values = tuple[Any, ...]
DEFAULT_PAGE_BYTES = 4096
INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF = 2, 10, 13
HEADER_BYTES = 100
"""Of the file, on its first page."""
FRAME_BYTES = 24
MOST_PAYLOAD_BYTES = 1 << 30
INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


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


class Pages:
    def __init__(self, file: bytes, wal: bytes = b"") -> None:
        self.page_bytes = _page_bytes(file)
        count = len(file) // self.page_bytes
        self._pages = {at + 1: file[at * self.page_bytes : (at + 1) * self.page_bytes] for at in range(count)}
        self._pages |= _committed(wal, self.page_bytes)

    def rows(self) -> Iterator[tuple[int | None, Values]]:
        """Every row of every page: its number (None in an index, or in a table without numbers) and its values."""
        for number in sorted(self._pages):
            start = HEADER_BYTES if number == 1 else 0
            page = self._pages[number]
            kind = page[start]
            if kind in (INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF):
                yield from self._rows_on(page, start, kind)

    def _rows_on(self, page: bytes, start: int, kind: int) -> Iterator[tuple[int | None, Values]]:
        (count,) = struct.unpack_from(">H", page, start + 3)
        pointers = start + (12 if kind == INDEX_INTERIOR else 8)
        for place in range(min(count, (len(page) - pointers) // 2)):
            (cell,) = struct.unpack_from(">H", page, pointers + 2 * place)
            try:
                yield self._cell(page, cell, kind)
            except (IndexError, ValueError, KeyError, struct.error, OverflowError, RecursionError):
                continue  # this cell is damaged; those beside it may not be

    def _cell(self, page: bytes, at: int, kind: int) -> tuple[int | None, Values]:
        if kind == INDEX_INTERIOR:
            at += 4
        size, at = _varint(page, at)
        row_id = None
        if kind == TABLE_LEAF:
            row_id, at = _varint(page, at)
        if not 0 < size <= MOST_PAYLOAD_BYTES:
            raise ValueError("no size of a row")
        return row_id, _values(self._payload(page, at, size, kind == TABLE_LEAF))

    def _payload(self, page: bytes, at: int, size: int, is_table: bool) -> bytes:
        usable = self.page_bytes
        most = usable - 35 if is_table else (usable - 12) * 64 // 255 - 23
        if size <= most:
            payload = page[at : at + size]
        else:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (usable - 4)
            local = local if local <= most else least
            (following,) = struct.unpack_from(">I", page, at + local)
            payload = page[at : at + local] + self._overflow(following, size - local)
        if len(payload) != size:
            raise ValueError("a row that is cut off")
        return payload

    def _overflow(self, number: int, size: int) -> bytes:
        found, seen = bytearray(), set[int]()
        while len(found) < size:
            if number in seen:
                raise ValueError("a chain of pages that goes round")
            seen.add(number)
            page = self._pages[number]
            found += page[4:]
            (number,) = struct.unpack_from(">I", page)
        return bytes(found[:size])


def _page_bytes(file: bytes) -> int:
    size = int.from_bytes(file[16:18], "big") if file.startswith(b"SQLite format 3\0") else 0
    size = 65536 if size == 1 else size
    return size if size >= 512 and size & (size - 1) == 0 else DEFAULT_PAGE_BYTES


def _committed(wal: bytes, page_bytes: int) -> dict[int, bytes]:
    """The newest of each page in a write-ahead log, up to the last commit; frames after a damaged one do not count."""
    if len(wal) < 32 or int.from_bytes(wal[8:12], "big") != page_bytes:
        return {}
    order = ">" if int.from_bytes(wal[:4], "big") & 1 else "<"
    if _sums(wal[:24], (0, 0), order) != struct.unpack_from(">II", wal, 24):
        return {}
    salts, sums = wal[16:24], struct.unpack_from(">II", wal, 24)
    found, pending = dict[int, bytes](), dict[int, bytes]()
    for at in range(32, len(wal) - FRAME_BYTES - page_bytes + 1, FRAME_BYTES + page_bytes):
        header, page = wal[at : at + FRAME_BYTES], wal[at + FRAME_BYTES : at + FRAME_BYTES + page_bytes]
        sums = _sums(header[:8] + page, sums, order)
        number, commit = struct.unpack_from(">II", header)
        if header[8:16] != salts or struct.unpack_from(">II", header, 16) != sums:
            break
        pending[number] = page
        if commit:
            found |= pending
            pending = {}
    return found


def _sums(content: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    one, other = before
    integers = struct.unpack(f"{order}{len(content) // 4}I", content)
    for at in range(0, len(integers), 2):
        one = (one + integers[at] + other) & 0xFFFFFFFF
        other = (other + integers[at + 1] + one) & 0xFFFFFFFF
    return one, other


def _varint(page: bytes, at: int) -> tuple[int, int]:
    found = 0
    for place in range(9):
        byte = page[at + place]
        if place == 8:
            found = (found << 8) | byte
            return (found - 2**64 if found >= 2**63 else found), at + 9
        found = (found << 7) | (byte & 0x7F)
        if not byte & 0x80:
            return found, at + place + 1
    raise AssertionError


def _values(payload: bytes) -> Values:
    header_bytes, at = _varint(payload, 0)
    if header_bytes > len(payload):
        raise ValueError("a row that is cut off")
    kinds = []
    while at < header_bytes:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    at = header_bytes
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    if at != len(payload):
        raise ValueError("a row of another length than it says")
    return tuple(values)


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in INTEGER_BYTES:
        end = at + INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind < 12:
        raise ValueError("no kind of a value")
    end = at + (kind - 12) // 2
    content = payload[at:end]
    return (content.decode("utf-8") if kind & 1 else content), end
