"""The log of a home, checked, opened and watched while it is open."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from weft.control import exchange
from weft.control.backup import free_name
from weft.control.damage import DamageError
from weft.control.desk import Desk
from weft.control.fold import load_desk
from weft.control.integrity import as_far_as, check, content_problems, reading
from weft.control.reconciliation import listed
from weft.control.store import Store, StoreError
from weft.control.watermark import ANY, OpenWatermark, Watermark, wal_salts
from weft.core.errors import WeftError
from weft.core.view import Decider
from weft.system.files import make_folder
from weft.system.home import Home

log = logging.getLogger(__name__)


def open_log(home: Home) -> Store:
    """The log, if it is what was written; DamageError otherwise. Call it with the daemon's lock held."""
    exchange.finish(home)
    check(home)
    try:
        store = Store(home.database)
    except (sqlite3.Error, OSError) as error:
        raise DamageError([f"the log {home.database} cannot be opened: {error}"]) from error
    try:
        store.watch = Watched(home, store)
    except BaseException:
        store.close()
        raise
    return store


class Watched:
    """Sees that the files that are open are those that the next start will find, and keeps the watermark."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home = home
        self._store = store
        self._is_rescued = False
        self._rescued: Path | None = None
        log_id = store.setting("log id") or os.urandom(16).hex()
        with reading(home.database) as db:
            found = as_far_as(db)
        self._mark = OpenWatermark(home.watermark, Watermark(found.log, found.number, found.seq, ANY))
        store.put_settings([("log id", log_id)])  # with this SQLite has made its write-ahead log
        self._files = {path: _identity(path) for path in (home.database, Path(f"{home.database}-wal"))}
        self._mark.move(log=log_id, wal=wal_salts(home.database) or ANY)

    @property
    def trouble(self) -> str:
        """What is wrong with the files; empty if they are in place."""
        gone = [path.name for path, identity in self._files.items() if _identity(path) != identity]
        return f"{' and '.join(gone)} was removed or replaced while weft runs" if gone else ""

    def check(self) -> None:
        """Before each commit: what goes to a file without a name is gone at the next start, so nothing is accepted."""
        if not (trouble := self.trouble):
            return
        kept = self._rescue()
        said = f"; what was accepted before is in {kept}" if kept else ""
        raise StoreError(f"nothing is accepted: {trouble}{said}", "weft down, then weft repair; jobs that run go on")

    def committed(self, number: int, seq: int) -> None:
        mark = self._mark.mark
        with suppress(OSError):  # a full disk: it stays behind, which is no fault
            self._mark.move(number=max(number, mark.number), seq=seq, wal=wal_salts(self._home.database) or ANY)

    def close(self) -> None:
        self._mark.close()

    def _rescue(self) -> Path | None:
        """The open files can still be read: keep what is in them as a backup, once."""
        if self._is_rescued:
            return self._rescued
        self._is_rescued = True
        draft = self._home.backups / f".weft-{os.getpid()}-rescued.draft"
        try:
            make_folder(self._home.backups)
            draft.unlink(missing_ok=True)
            with closing(sqlite3.connect(draft)) as target:
                self._store.copy_to(target)
                target.execute("PRAGMA journal_mode = DELETE")
            path = free_name(self._home.backups, datetime.now(UTC))
            draft.rename(path)
        except (sqlite3.Error, OSError, WeftError) as error:
            log.warning("what was accepted cannot be copied: %s", error)
            return None
        self._rescued = path
        return path


def read_problems(home: Home) -> list[str]:
    """What is wrong with the pages and rows of a log that is in use."""
    try:
        with reading(home.database) as db:
            return content_problems(db)
    except DamageError as error:
        return list(error.problems)


def folded(home: Home, store: Store, policy: Decider, quotas: Mapping[str, int], startup_s: float = 0.0) -> Desk:
    """The desk that a log makes; DamageError, with the rows that are at fault, if it makes none."""
    try:
        desk = load_desk(store, policy, quotas, startup_s)
    except StoreError:
        raise
    except Exception as error:
        what = f"the log cannot be folded: {type(error).__name__}: {error}"
        raise DamageError(read_problems(home) or [what]) from error
    live, known = desk.records.keys(), desk.scheduler.ledger.jobs.keys()
    if live != known:
        raise DamageError([f"the rows of jobs and the log differ: {listed(sorted(live ^ known))}"])
    return desk


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
