"""The log of a home: checked, opened, watched and backed up while it is open."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

from weft.control.loop.control_state import ControlState
from weft.control.store import watermark as exchange
from weft.control.store.backup import back_up, backups, free_name, tidy
from weft.control.store.integrity import CHECKED_AT_ONCE_BYTES, DamageError, as_far_as, check, content_problems, reading
from weft.control.store.log_store import LogStore, StoreError
from weft.control.store.reconstruction import listed
from weft.control.store.replay import load_control_state
from weft.control.store.watermark import ANY, OpenWatermark, Watermark, wal_salts
from weft.core.errors import WeftError
from weft.core.view import Decider
from weft.system.files import make_folder
from weft.system.home import Home

log = logging.getLogger(__name__)
LOOK_EVERY_S = 2.0


def open_log(home: Home) -> LogStore:
    """The log, if it is what was written; DamageError otherwise. Call it with the daemon's lock held."""
    exchange.finish_exchange(home)
    check(home)
    try:
        store = LogStore(home.database)
    except (sqlite3.Error, OSError) as error:
        raise DamageError([f"the log {home.database} cannot be opened: {error}"]) from error
    try:
        store.watch = OpenLog(home, store)
    except BaseException:
        store.close()
        raise
    return store


class OpenLog:
    """Checks that the open files are those that the next start will find, and keeps the watermark."""

    def __init__(self, home: Home, store: LogStore) -> None:
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
        """Before each commit: what is written to a file without a name is lost at the next start."""
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


def folded(
    home: Home, store: LogStore, policy: Decider, quotas: Mapping[str, int], startup_s: float = 0.0
) -> ControlState:
    """The control state that a log gives; DamageError, with the rows at fault, if it gives none."""
    try:
        control = load_control_state(store, policy, quotas, startup_s)
    except StoreError:
        raise
    except Exception as error:
        what = f"the log cannot be folded: {type(error).__name__}: {error}"
        raise DamageError(read_problems(home) or [what]) from error
    live, known = control.records.keys(), control.scheduler.ledger.jobs.keys()
    if live != known:
        raise DamageError([f"the rows of jobs and the log differ: {listed(sorted(live ^ known))}"])
    return control


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class LogUpkeep:
    def __init__(self, home: Home, store: LogStore, backup_every_s: float | None) -> None:
        self._home = home
        self._store = store
        self._every_s = backup_every_s
        self._problems: list[str] = []
        self._trouble = ""
        self._backup_trouble = ""

    def warnings(self) -> list[str]:
        found = [self._trouble] if self._trouble else []
        if self._problems:
            hint = "weft down, then weft repair"
            found.append(f"the log is damaged, in {len(self._problems)} places; {self._problems[0]}; {hint}")
        return found + ([self._backup_trouble] if self._backup_trouble else [])

    async def run(self) -> None:
        """For ever. What goes wrong here is said, and ends nothing."""
        if self._home.database.stat().st_size > CHECKED_AT_ONCE_BYTES:
            self._problems = await asyncio.to_thread(read_problems, self._home)
            for problem in self._problems:
                log.error("the log is damaged: %s", problem)
        tidy(self._home)
        newest = backups(self._home)
        age_s = (datetime.now(UTC) - newest[0][1]).total_seconds() if newest else float("inf")
        due_s = time.monotonic() + max(0.0, (self._every_s or 0.0) - max(0.0, age_s))
        copied_seq = -1
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look()
            if self._every_s is not None and time.monotonic() >= due_s and not self._trouble:
                due_s = time.monotonic() + self._every_s
                copied_seq = await self._back_up(copied_seq)

    async def _look(self) -> None:
        """Also when nothing is written: health requests show the warning."""
        watch = self._store.watch
        if watch is None or not watch.trouble:
            self._trouble = ""
        elif not self._trouble:
            try:
                await asyncio.to_thread(watch.check)
            except WeftError as error:
                self._trouble = f"{error.message}; {error.hint}"
                log.error("%s", self._trouble)  # noqa: TRY400 - it is no bug of ours

    async def _back_up(self, copied_seq: int) -> int:
        """A backup, unless nothing was written since the last; how far that has come."""
        last = self._store.one("last_seq")
        seq = int(last["seq"]) if last else 0
        if seq == copied_seq:
            return seq
        try:
            made = await asyncio.to_thread(back_up, self._home)
        except WeftError as error:
            self._backup_trouble = f"the last backup failed: {error.message}"
            log.warning("%s", self._backup_trouble)
            return copied_seq
        self._backup_trouble = ""
        log.info("backed up as %s", made.path.name)
        return seq
