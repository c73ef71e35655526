"""The coordinator of this machine: started when there is none, replaced when it does not answer, stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from weft.control.coordinator_session import CoordinatorSession
from weft.node.shepherd.supervise import become_subreaper
from weft.runtime import procfs
from weft.system.files import WrongKindError, open_regular
from weft.system.home import Home
from weft.system.lockfile import holder_of

LOOK_EVERY_S = 0.25
STARTING_S = 10.0
LEAVING_S = 10.0
MODULE = "weft.node.coordinator"
AGAIN_S = 1.0
"""Between two starts, for one that ends at once."""

log = logging.getLogger(__name__)


class CoordinatorProcess:
    def __init__(self, home: Home, session: CoordinatorSession, devices: str, silent_s: float, fence: str) -> None:
        self._home = home
        self._session = session
        self._devices = devices
        self._silent_s = silent_s
        self._fence = fence
        self._child: subprocess.Popen[bytes] | None = None
        self._begun_s = -AGAIN_S
        self._is_leaving = False

    async def run(self) -> None:
        become_subreaper()  # what a killed coordinator leaves behind is found among our children by the next one
        while not self._is_leaving:
            if self._child is not None:
                self._child.poll()
            reap_orphans(self._child.pid if self._child else 0)
            holder = holder_of(self._home.node_lock)
            if holder is None and not self._is_starting() and time.monotonic() - self._begun_s > AGAIN_S:
                self._start()
            elif holder and time.monotonic() - max(self._session.link.heard_s, self._begun_s) > self._silent_s:
                log.warning("the coordinator, process %d, does not answer; it is replaced", holder)
                _kill(holder)
                self._session.link.heard_s = time.monotonic()
            await asyncio.sleep(LOOK_EVERY_S)

    async def leave(self) -> None:
        """Tell it to leave, and wait until it has."""
        self._is_leaving = True  # or the next look would start another
        holder = holder_of(self._home.node_lock)
        await self._session.leave()
        deadline = time.monotonic() + LEAVING_S
        while holder and holder_of(self._home.node_lock) == holder and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        if holder and holder_of(self._home.node_lock) == holder:
            _kill(holder)
        if self._child is not None:
            if self._child.poll() is None and self._child.pid != holder:
                self._child.kill()  # it had not connected yet
            await asyncio.to_thread(self._child.wait)

    def _is_starting(self) -> bool:
        return self._child is not None and self._child.poll() is None and time.monotonic() - self._begun_s < STARTING_S

    def _start(self) -> None:
        command = [sys.executable, "-P", "-m", MODULE, "--fence", self._fence]
        if self._devices:
            command += ["--devices", self._devices]
        self._begun_s = time.monotonic()
        try:
            log_file = open_regular(self._home.node_log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            with os.fdopen(log_file, "ab") as output:
                self._child = subprocess.Popen(  # noqa: S603
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, cwd="/"
                )
        except (OSError, WrongKindError) as error:  # no process left to be had, or a full disk: it is tried again
            log.warning("the coordinator cannot be started: %s", error)
        else:
            log.info("started the coordinator, process %d", self._child.pid)


def reap_orphans(child: int) -> None:
    """Take in the ends of adopted processes, so that none stays a zombie. The status of `child`, and of what was
    started in our own session, is asked for elsewhere."""
    session = os.getsid(0)
    for pid in procfs.children(os.getpid()):
        with contextlib.suppress(OSError):
            if pid != child and os.getsid(pid) != session:
                os.waitpid(pid, os.WNOHANG)


def _kill(pid: int) -> None:
    """Kill a coordinator. The pid in the lock may be stale and reused by now, so the command line is checked."""
    with contextlib.suppress(OSError):
        if MODULE.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
