"""Copies of the log, made while it is in use: backups/weft-TIME.db, each a whole database that was verified."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from weft.control.store.integrity import as_far_as, content_problems, reading
from weft.control.store.watermark import Watermark
from weft.core.errors import WeftError
from weft.runtime.failpoints import reach
from weft.system.files import kind_at, make_folder
from weft.system.home import Home

FAIL_POINTS = ("backup-begun", "backup-copied", "backup-named")

PAGES_AT_ONCE = 256
REST_S = 0.005
"""Between two portions, so that the copy takes no more than a part of the disk's time."""
KEPT = 3
NAMED = re.compile(r"weft-(\d{8}T\d{6}Z)(?:-\d+)?\.db")
TIME = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Backup:
    path: Path
    made: datetime
    reached: Watermark
    """How far the log had come."""


def back_up(home: Home, file: Path | None = None) -> Backup:
    """Copy the log as it is at this instant, verify the copy, and give it its name only then.

    The copy is made from one snapshot of the database, which a reader in WAL mode keeps without being in the way of
    the writer. Without a file, it is one of the few that are kept in the home.
    """
    _check_room(home, file)
    if file is None:
        make_folder(home.backups)
    elif file.exists():
        raise WeftError(f"{file} exists", "name a new file")
    draft = (file.parent if file else home.backups) / f".weft-{os.getpid()}-{os.urandom(4).hex()}.draft"
    try:
        try:
            with reading(home.database) as source:
                _copy(source, draft)
            reached = verified(draft)
        except (sqlite3.Error, OSError) as error:
            raise WeftError(f"the backup {draft} cannot be made: {error}", "is there room on the disk?") from error
        reach("backup-copied")
        made = datetime.now(UTC)
        path = file or free_name(home.backups, made)
        _flush(draft)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    _flush(path.parent)
    reach("backup-named")
    if file is None:
        tidy(home)
    return Backup(path, made, reached)


def verified(path: Path) -> Watermark:
    """How far the log had come of which this is a copy; WeftError if it is not whole."""
    uri = f"file:{quote(str(path))}?immutable=1"
    if not path.is_file():
        raise WeftError(f"{path} is {kind_at(path)}, no backup", "weft restore --list names those that are there")
    try:
        with closing(sqlite3.connect(uri, uri=True)) as db:
            problems, reached = content_problems(db), as_far_as(db)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        problems = [str(error)]
    if problems:
        raise WeftError(f"{path} is no backup that can be used: {problems[0]}", "weft restore --list names the others")
    return reached


def backups(home: Home) -> list[tuple[Path, datetime]]:
    """Those of this home, the newest first. They are not verified."""
    found = []
    with suppress(OSError):
        for entry in home.backups.iterdir():
            if (match := NAMED.fullmatch(entry.name)) and entry.is_file():
                found.append((entry, datetime.strptime(match[1], TIME).replace(tzinfo=UTC)))
    return sorted(found, key=lambda one: (one[1], one[0].name), reverse=True)


def tidy(home: Home) -> None:
    """Keep the newest few; remove drafts whose maker was killed."""
    for path, _ in backups(home)[KEPT:]:
        path.unlink(missing_ok=True)
    with suppress(OSError):
        for draft in home.backups.glob(".weft-*.draft*"):
            if time.time() - draft.stat().st_mtime > 3600:
                draft.unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, draft: Path) -> None:
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        source.isolation_level = None
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on it sees one snapshot
        reach("backup-begun")
        source.backup(target, pages=PAGES_AT_ONCE, sleep=REST_S)
        source.execute("COMMIT")
        target.execute("PRAGMA journal_mode = DELETE")  # a whole file: nothing beside it belongs to it


def _check_room(home: Home, file: Path | None) -> None:
    try:
        size_bytes = home.database.stat().st_size
        folder = file.parent if file else home.root
        free_bytes = shutil.disk_usage(folder).free
    except OSError as error:
        raise WeftError(
            f"no backup can be made: {error.strerror}: {error.filename}", "weft doctor says more"
        ) from error
    if not size_bytes:
        raise WeftError("there is no log to back up yet", "weft up makes one")
    if free_bytes < 2 * size_bytes:
        raise WeftError(f"no backup is made: {folder} has {free_bytes >> 20} MiB free", "free some space")


def free_name(folder: Path, made: datetime) -> Path:
    path, number = folder / f"weft-{made.strftime(TIME)}.db", 1
    while path.exists():
        number += 1
        path = folder / f"weft-{made.strftime(TIME)}-{number}.db"
    return path


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
