"""Is the log what was written? It is checked before a daemon uses it; checking changes nothing.

Before SQLite opens the file: what it is, whether it is empty though it must not be, whether the write-ahead log beside
it is its own (SQLite would apply another's). Then read-only: the schema, how far the log has come against its
watermark, the pages and every row. The last takes about 20 ms a megabyte, so a large log is read while the daemon runs
already.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from weft.control.loop.job_record import COLUMNS, record_of
from weft.control.store.log_store import INVENTORY_SETTING, KEYS, QUERIES, is_intact, scripts, upgrade
from weft.control.store.watermark import Watermark, highest_job_folder, read_watermark, wal_salts
from weft.core.errors import WeftError
from weft.core.serialization import KINDS, fact_of
from weft.core.snapshot import restored
from weft.system.files import WrongKindError, check_regular, open_regular, wrong_kind
from weft.system.home import Home

CHECKED_AT_ONCE_BYTES = 16 << 20
MOST_PROBLEMS = 1000
Schema = dict[str, str]

REPAIR = "weft repair recovers what can be read and keeps the damaged file; weft restore goes back to a backup"
SHOWN = 5


class DamageError(WeftError):
    """The log is not what was written. Nothing has been changed, and jobs that run are left alone."""

    def __init__(self, problems: Sequence[str], hint: str = REPAIR) -> None:
        more = f"\n  and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        shown = "".join(f"\n  {problem}" for problem in problems[:SHOWN])
        super().__init__(problems[0] if len(problems) == 1 else f"the log is damaged:{shown}{more}", hint)
        self.problems = tuple(problems)


def check(home: Home) -> None:
    """Raise DamageError if a daemon must not use this log. A large one is not read as a whole."""
    _check_files(home)
    if not _is_empty(home.database):
        with reading(home.database) as db:
            _check_schema(db)
            problems = _behind(home, db)
            if not problems and home.database.stat().st_size <= CHECKED_AT_ONCE_BYTES:
                problems = content_problems(db)
            if problems:
                raise DamageError(problems)


def problems_of(home: Home) -> list[str]:
    """All that is wrong with the log, as a whole; none, if a daemon can use it."""
    try:
        check(home)
        if _is_empty(home.database):
            return []
        with reading(home.database) as db:
            return content_problems(db)
    except DamageError as error:
        return list(error.problems)
    except WrongKindError as error:
        return [error.message]


def content_problems(db: sqlite3.Connection) -> list[str]:
    """What is wrong with the pages, and with each row."""
    found: list[str] = []
    try:
        said = [str(row[0]) for row in db.execute(f"PRAGMA integrity_check({MOST_PROBLEMS})")]
        found += [f"a page: {line}" for line in said if line != "ok"]
        db.row_factory = sqlite3.Row
        for table in KEYS:
            for row in map(dict, db.execute(f"SELECT * FROM {table}")):  # noqa: S608 - a name of a literal
                if fault := fault_of(table, row):
                    found.append(f"{named(table, row)}: {fault}")
            if len(found) > MOST_PROBLEMS:
                break
        found += _contradictions(db)
    except sqlite3.Error as error:
        found.append(f"the log cannot be read: {error}")
    return found


@contextmanager
def reading(database: Path) -> Iterator[sqlite3.Connection]:
    """A database, read-only. What SQLite says against it is raised as damage."""
    try:
        check_regular(database)  # SQLite would wait for a fifo
    except OSError as error:
        raise DamageError([f"the log {database} cannot be opened: {error.strerror}"]) from error
    try:
        db = sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True, timeout=10.0)
        with closing(db):
            yield db
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise DamageError([f"the log cannot be read: {error} ({database})"]) from error


def as_far_as(db: sqlite3.Connection) -> Watermark:
    """How far a log has come."""
    seq = db.execute(
        "SELECT max(coalesce((SELECT max(seq) FROM log), 0), coalesce((SELECT max(seq) FROM snapshots), 0))"
    )
    row = db.execute("SELECT value FROM settings WHERE name = 'log id'").fetchone()
    number = db.execute(QUERIES["last_number"]).fetchone()[0]
    return Watermark(row[0] if row else "", int(number), int(seq.fetchone()[0]))


def schema_version(database: Path) -> int:
    """As the file says; 0 if it cannot be read."""
    try:
        with reading(database) as db:
            return int(db.execute("PRAGMA user_version").fetchone()[0])
    except (DamageError, WrongKindError):
        return 0


def _check_files(home: Home) -> None:
    database = home.database
    for path in (database, Path(f"{database}-wal"), Path(f"{database}-shm"), home.watermark):
        if os.path.lexists(path):
            try:
                os.close(open_regular(path, os.O_RDWR))
            except OSError as error:
                problem = f"{path} cannot be written to: {error.strerror}"
                raise DamageError([problem], f"make it writable: chmod 600 {path}") from error
    if not os.access(home.root, os.W_OK | os.X_OK):
        raise DamageError([f"{home.root} cannot be written to"], f"make it writable: chmod 700 {home.root}")
    if not (home.root / "jobs").is_dir():
        raise wrong_kind(home.root / "jobs", "a folder")
    mark = read_watermark(home.watermark)
    if _is_empty(database):
        given = max(mark.number if mark else 0, highest_job_folder(home.root / "jobs"))
        if given or (mark and mark.seq):
            how = "is empty" if database.exists() else "is not there"
            raise DamageError([f"the log {database} {how}, but numbers up to {given} were given to jobs"])
    elif mark and (salts := wal_salts(database)) and not mark.allows(salts):
        raise DamageError([f"{database}-wal is the write-ahead log of another database"])


def _is_empty(database: Path) -> bool:
    return not database.exists() or database.stat().st_size == 0


def _check_schema(db: sqlite3.Connection) -> None:
    """The tables and indexes that a log of its version has, statement by statement; others may exist besides."""
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(scripts()):
        problem = f"the log is of version {version}, and this weft knows {len(scripts())}"
        raise WeftError(problem, "use the newer weft that wrote it")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        upgrade(fresh, scripts()[:version])
        wanted, found = _schema(fresh), _schema(db)
    problems = [
        f"{name} is missing" if name not in found else f"{name} is not as it was made"
        for name in wanted
        if wanted[name] != found.get(name)
    ]
    if version == 0:
        problems = ["the log cannot be read: it is no database of weft's"]
    if problems:
        raise DamageError(problems)


def _schema(db: sqlite3.Connection) -> Schema:
    listed = db.execute("SELECT type, name, sql FROM sqlite_schema WHERE type IN ('table', 'index')").fetchall()
    return {f"the {kind} {name}": " ".join((sql or "").split()) for kind, name, sql in listed}


def _behind(home: Home, db: sqlite3.Connection) -> list[str]:
    mark, found = read_watermark(home.watermark), as_far_as(db)
    if mark is None:
        highest = highest_job_folder(home.root / "jobs")
        if highest > found.number:
            return [f"the log knows jobs up to {found.number}, but there is a folder of job {highest}"]
        return []
    if mark.log != found.log:
        return [f"{home.database} is another log than the one that was here"]
    if mark.number > found.number or mark.seq > found.seq:
        behind = f"it ends at row {found.seq} and job {found.number}, and had come to {mark.seq} and {mark.number}"
        return [f"{home.database} is older than the log that was here: {behind}"]
    return []


def _contradictions(db: sqlite3.Connection) -> list[str]:
    """Rows that must be there because others are: those that a restart folds are numbered without a gap."""
    found = []
    since = db.execute("SELECT coalesce(max(seq), 0) FROM snapshots").fetchone()[0]
    count, first, last = db.execute("SELECT count(*), min(seq), max(seq) FROM log WHERE seq > ?", (since,)).fetchone()
    if count and (first != since + 1 or last - first + 1 != count):
        found.append(f"rows of the log after {since} are missing: {count} are there, the last is {last}")
    if (since or count) and not db.execute("SELECT count(*) FROM clock").fetchone()[0]:
        found.append("the time of the last instant is missing")
    bare = db.execute(
        "SELECT id FROM jobs WHERE finished_at IS NULL AND environment NOT IN (SELECT id FROM environments)"
    )
    return found + [f"the environment of job {row[0]} is missing" for row in bare]


def named(table: str, row: Mapping[str, Any]) -> str:
    return f"row {'.'.join(str(row[key]) for key in KEYS[table])} of {table}"


def fault_of(table: str, row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row; None if it is as it was written and can be decoded."""
    try:
        if not is_intact(table, row):
            return "its checksum is wrong"
        if table in DECODERS:
            DECODERS[table](row)
    except Exception as error:  # noqa: BLE001 - whatever a damaged row makes the decoder do, the row is what is wrong
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _log(row: Mapping[str, Any]) -> None:
    body = _typed(row["body"], dict)
    if row["kind"] in KINDS:
        fact_of(row["kind"], body)


def _snapshot(row: Mapping[str, Any]) -> None:
    restored(_typed(row["body"], dict))


def _setting(row: Mapping[str, Any]) -> None:
    if row["name"] == INVENTORY_SETTING:
        fields = _typed(row["value"], dict)
        if not isinstance(fields["machine"], str) or not all(isinstance(each, dict) for each in fields["devices"]):
            raise TypeError("not a node and its devices")
    elif row["name"] == "last number":
        int(row["value"])


def _environment(row: Mapping[str, Any]) -> None:
    if not all(isinstance(each, str) for pair in _typed(row["body"], dict).items() for each in pair):
        raise TypeError("not names and values")
    if sha256(row["body"].encode()).hexdigest() != row["digest"]:
        raise ValueError("its digest is wrong")


def _job(row: Mapping[str, Any]) -> None:
    record = record_of([row[column] for column in COLUMNS], None)
    if not isinstance(record.request, dict):
        raise TypeError("its request is not a table")
    asked = record.request
    texts = (asked["name"], asked["tenant"], asked["cwd"], *asked["command"])
    if not all(isinstance(each, str) for each in texts) or asked["gpus"] % asked["ntasks"]:
        raise TypeError("its request is not one that could be made")


def _attempt(row: Mapping[str, Any]) -> None:
    if not all(isinstance(each, str) for each in _typed(row["devices"], list)):
        raise TypeError("its devices are not names")


def _typed(text: str, kind: type) -> Any:
    found = json.loads(text)
    if not isinstance(found, kind):
        raise TypeError(f"not a {kind.__name__}")
    return found


DECODERS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "log": _log,
    "snapshots": _snapshot,
    "settings": _setting,
    "environments": _environment,
    "jobs": _job,
    "attempts": _attempt,
}
