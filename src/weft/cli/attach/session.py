"""`weft run` once the job is submitted, and `weft attach`: its output, its input, a line about it, and its end."""

from __future__ import annotations

import errno
import os
import select
import signal
import time
from contextlib import suppress
from types import TracebackType

from weft.cli.attach.job_input import CONTROL_C, JobInput
from weft.cli.attach.screen import ERR, OUT, Screen, can_ask, read_key
from weft.cli.attach.watcher import Watcher
from weft.cli.render.job_text import devices, end_message, exit_status, status_line
from weft.client import Client, Job
from weft.core.errors import WeftError
from weft.system.tail import PollingPace, Tail

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH)
INTERRUPTED = 130
DRAW_EVERY_S = 0.25
WAITING = ("PENDING", "PAUSED")
QUIET_S = 0.3
"""A job that starts within this is not said to wait."""


class JobSession:
    """One loop over the updates of the watcher, the output of the job, the input of the user, and signals."""

    def __init__(
        self,
        client: Client,
        job: Job,
        feeding: JobInput | None,
        *,
        is_split: bool,
        last: int | None = None,
        is_onlooker: bool = False,
    ) -> None:
        """`last`: of what was printed before, only so many lines. `is_onlooker`: the job was submitted by another
        command. It goes on when a signal ends this one or its output is closed, and is cancelled only on request.
        """
        self._client = client
        self._id = str(job["id"])
        self._feeding = feeding
        self._screen = Screen()
        self._is_onlooker = is_onlooker
        self._tails = {OUT: Tail(client.home.log(self._id, 0), last)}
        if is_split:
            self._tails[ERR] = Tail(client.home.log(self._id, 0, split=True), last)
        self._woken, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._watcher = Watcher(client.home, job, self._watched)
        self._pace = PollingPace()
        self._drawn_s = time.monotonic() - DRAW_EVERY_S + QUIET_S
        self._told = ""
        self._was_reachable = True
        self._is_cancelled = False
        self._cancelled_code = INTERRUPTED
        self._is_announced = not os.isatty(ERR)  # a script that reads our stderr wants the job's alone
        self._code: int | None = None

    def __enter__(self) -> JobSession:
        signal.set_wakeup_fd(self._wake)
        for each in SIGNALS:
            signal.signal(each, lambda *_: None)  # its number comes through the pipe
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._screen.erase()
        if self._feeding:
            self._feeding.close()
        self._watcher.close()

    def follow(self) -> int:
        """Until the job has ended and all it printed is shown; its exit code. Or until the user detaches: 0."""
        self._watcher.start()
        while self._code is None:
            has_ended = self._watcher.has_ended  # asked first, read then: the log is complete
            if self._watcher.error:
                raise self._watcher.error
            if not self._pump() and has_ended:
                return self._ended()
            self._draw()
            self._wait()
        return self._code

    def _pump(self) -> bool:
        """Print what the job printed; whether there was anything."""
        has_come = False
        for fd, tail in list(self._tails.items()):
            if data := tail.read():
                has_come = True
                self._announce(must=True)
                if self._feeding:
                    self._feeding.make_raw()
                try:
                    self._screen.write(fd, data)
                except OSError as error:
                    self._unheard(fd, error)
        self._pace.seen(has_come)
        return has_come

    def _wait(self) -> None:
        feeding = self._feeding
        if feeding:
            feeding.reach(self._watcher.job)
            self._screen.is_raw = feeding.is_raw
        typed = feeding.reads if feeding else []
        writes = feeding.writes if feeding else []
        readable, writable, _ = select.select([self._woken, *typed], writes, [], self._pace.wait_s)
        if self._woken in readable:
            self._pace.seen(True)
            for number in os.read(self._woken, 4096):
                self._signalled(number)
        if feeding and writable:
            feeding.send()
        if feeding and set(typed) & set(readable) and feeding.read():
            self._ask()

    def _signalled(self, number: int) -> None:
        if number == signal.SIGWINCH and self._feeding:
            self._feeding.resized()
        elif number == signal.SIGHUP:
            self._code = 0
        elif number == signal.SIGTERM or (number == signal.SIGINT and not can_ask()):
            if self._is_onlooker:
                self._code = 128 + number
                return
            self._cancelled_code = 128 + number
            self._cancel()
        elif number == signal.SIGINT:
            self._ask()

    def _ask(self) -> None:
        """Detach or cancel? A second Ctrl-C cancels; any other key goes on as before."""
        if self._is_cancelled:
            self._cancel()
            return
        to_job = bool(self._feeding and self._feeding.is_raw)
        send = "s: send Ctrl-C to the job, " if to_job else ""
        self._screen.say(f"detach or cancel? [d: detach, c or Ctrl-C: cancel, {send}any other key: continue] ")
        key = read_key(lambda: self._watcher.has_ended)
        if key in (b"d", b"D"):
            self._screen.say(f"detached; job {self._id} continues: weft attach {self._id}")
            self._code = 0
        elif key in (b"c", b"C", CONTROL_C):
            self._cancel()
        elif key in (b"s", b"S") and self._feeding and to_job:
            self._feeding.type(CONTROL_C)

    def _cancel(self) -> None:
        if self._is_cancelled:
            self._screen.say(f"job {self._id} is being cancelled; not waiting for its end")
            self._code = self._cancelled_code
            return
        try:
            self._client.cancel(self._id)
        except WeftError as error:  # it may just have ended; or there is no daemon, and then the next try may help
            if not self._watcher.has_ended:
                self._screen.say(f"error: job {self._id} is not cancelled: {error.message}")
            return
        self._is_cancelled = True

    def _unheard(self, fd: int, error: OSError) -> None:
        """The reader of our output has gone, which would end a command without weft. EIO: the terminal hung up."""
        if error.errno == errno.EIO:
            self._code = 0
            return
        if self._is_onlooker:
            self._code = 0
            return
        del self._tails[fd]
        why = (error.strerror or str(error)).lower()
        self._screen.say(f"weft: the output of job {self._id} cannot be written ({why}); it is cancelled")
        self._cancel()

    def _watched(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full, so the loop wakes anyway
            os.write(self._wake, b"\0")

    def _announce(self, *, must: bool = False) -> None:
        """Which job this is and where it runs: once, as soon as that is known, and before the job's first word."""
        place = devices(self._watcher.job) if self._watcher.job.get("devices") else ""
        if not self._is_announced and (place or must):
            self._is_announced = True
            self._screen.say(f"weft: job {self._id} runs{f' on {place}' if place else ''}")

    def _draw(self) -> None:
        self._announce()
        if self._watcher.is_reachable != self._was_reachable:
            self._was_reachable = self._watcher.is_reachable
            gone = f"weft: the daemon does not answer; job {self._id} continues; waiting for the daemon (weft up)"
            self._screen.say("weft: the daemon is back" if self._was_reachable else gone)
        if time.monotonic() < self._drawn_s + DRAW_EVERY_S:
            return
        self._drawn_s = time.monotonic()
        line = status_line(self._watcher.job)
        if self._screen.has_line:
            self._screen.draw(line)
        elif line and line != self._told and self._watcher.job["state"] in WAITING:
            self._screen.say(f"weft: {line}")
            self._told = line

    def _ended(self) -> int:
        job = self._watcher.job
        if said := end_message(job):
            self._screen.say(f"weft: {said}")
        if self._is_cancelled:
            return self._cancelled_code
        return exit_status(job)
