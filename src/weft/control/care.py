"""Care for the log while the daemon runs: its files in place, its content read once, a copy of it now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import UTC, datetime

from weft.control.backup import back_up, backups, tidy
from weft.control.home_log import read_problems
from weft.control.integrity import CHECKED_AT_ONCE_BYTES
from weft.control.store import Store
from weft.core.errors import WeftError
from weft.system.home import Home

LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)


class Care:
    def __init__(self, home: Home, store: Store, backup_every_s: float | None) -> None:
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
