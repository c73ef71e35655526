"""Jobs as the daemon sees them, asked for in a thread, and the logs of several as one."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.cli.attach.screen import write_all
from weft.client import ENDED, Client, Job, UnreachableError
from weft.core.errors import WeftError
from weft.core.value import value
from weft.system.home import Home
from weft.system.tail import NoFileError, PollingPace, last_lines_at, read_piece

ASK_EVERY_S = 30.0
REFRESH_S = 0.5
AGAIN_S = 0.2


class Watcher:
    """Asks in a thread. `job` is the latest answer; `changed` is called after each, and when there is no answer.

    Without a daemon it keeps asking until there is one: only the daemon knows how a job ended.
    """

    def __init__(self, home: Home, job: Job, changed: Callable[[], Any] = lambda: None) -> None:
        self.job = job
        self.is_reachable = True
        self.error: WeftError | None = None
        self._client = Client(home)
        self._client.restart_s = AGAIN_S
        self._changed = changed
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread of a job that has ended to close its connection. Any other ends with this process."""
        if self.has_ended or self.error:
            self._thread.join()

    @property
    def has_ended(self) -> bool:
        return self.job["state"] in ENDED

    def _asked(self, client: Client) -> Job:
        """The next answer, once something has changed or after a while."""
        return client.wait(self.job["id"], REFRESH_S, state_not=self.job["state"])

    def _watch(self) -> None:
        with self._client:
            self._ask_until_it_has_ended()

    def _ask_until_it_has_ended(self) -> None:
        again = threading.Event()
        while not self.has_ended:
            try:
                self.job = self._asked(self._client)
                self.is_reachable = True
            except UnreachableError:
                self.is_reachable = False
                again.wait(AGAIN_S)
            except WeftError as error:
                self.error = error
                self._changed()
                return
            self._changed()


class SelectionWatcher(Watcher):
    """Several jobs, until all have ended, however many they are, by one question at a time."""

    def __init__(self, home: Home, ids: Sequence[str]) -> None:
        super().__init__(home, {"id": ids[0], "is_over": False})
        self._ids = ids

    @property
    def has_ended(self) -> bool:
        return bool(self.job["is_over"])

    def _asked(self, client: Client) -> dict[str, object]:
        return client.wait_for(self._ids, timeout_s=ASK_EVERY_S)


# ---- The logs of several jobs: each line with the id of its job in front.

OUT = 1
LONGEST_LINE_BYTES = 1 << 16
"""A line that is longer is shown in pieces: what a job prints may have no line breaks."""
REST_FACTOR = 10
"""Looking at thousands of files takes a while: there is ten times as long between two looks."""


@value
class Source:
    """One task's log."""

    job_id: str
    path: Path


class Merged:
    """Files are opened for each look and not kept open: there may be thousands."""

    def __init__(self, sources: Sequence[Source], last: int | None) -> None:
        self._sources = sources
        self._last = last
        self._offsets: dict[str, int] = {}
        self._unfinished: dict[str, bytes] = {}

    def show(self) -> bool:
        """Print what is there, job after job; whether there was anything."""
        has_come = False
        for source in self._sources:
            while self._pump(source):
                has_come = True
            self.finish()
        return has_come

    def pump(self) -> bool:
        """Print what has come, whole lines of one job together; whether there was anything."""
        come = [self._pump(source) for source in self._sources]
        return any(come)

    def finish(self) -> None:
        """The last lines, which have no end."""
        for job_id, line in self._unfinished.items():
            if line:
                self._write(job_id, [line])
        self._unfinished.clear()

    def _pump(self, source: Source) -> bool:
        """A piece of one log, so that a job that prints without end does not keep the others waiting."""
        job_id = source.job_id
        try:
            if job_id not in self._offsets:
                self._offsets[job_id] = 0 if self._last is None else last_lines_at(source.path, self._last)
            piece = read_piece(source.path, self._offsets[job_id])
        except (FileNotFoundError, NoFileError):  # it has printed nothing yet; or has replaced its log
            return False
        if piece:
            self._offsets[job_id] += len(piece)
            *lines, rest = (self._unfinished.get(job_id, b"") + piece).split(b"\n")
            if len(rest) > LONGEST_LINE_BYTES:
                lines, rest = [*lines, rest], b""
            self._unfinished[job_id] = rest
            self._write(job_id, lines)
        return bool(piece)

    def _write(self, job_id: str, lines: Sequence[bytes]) -> None:
        if lines:
            prefix = f"{job_id}: ".encode()
            shown = map(_visible, lines) if os.isatty(OUT) else lines
            write_all(OUT, b"".join(prefix + line + b"\n" for line in shown))


def _visible(line: bytes) -> bytes:
    """A progress bar goes back to the beginning of its line, which here is the prefix's place."""
    return line.removesuffix(b"\r").rpartition(b"\r")[2]


def follow(home: Home, ids: Sequence[str], merged: Merged) -> None:
    """Until all of these have ended and everything is shown."""
    watcher, pace = SelectionWatcher(home, ids), PollingPace()
    watcher.start()
    while True:
        is_over = watcher.has_ended or watcher.error is not None
        began_s = time.monotonic()
        has_come = merged.pump()
        if is_over and not has_come:
            break
        pace.seen(has_come)
        time.sleep(max(pace.wait_s, REST_FACTOR * (time.monotonic() - began_s)) if not has_come else 0)
    merged.finish()
    watcher.close()
    if watcher.error:
        raise watcher.error
