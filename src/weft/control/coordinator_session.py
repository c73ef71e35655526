"""The coordinator of this machine: its process, and the exchange with it. Its messages become inputs, and orders are
completed when they are sent.

A report is acknowledged once it is on disk. Everything else is sent again with the next hello, or measured again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from weft.control.coordinator_link import CoordinatorLink, NodeConnection
from weft.control.loop.inputs import (
    AttemptReport,
    Input,
    Measurement,
    NodeConnected,
    NodeDevices,
    Order,
    PendingRun,
    ProgressReport,
)
from weft.control.loop.writer import LeavingError, RejectedError, Writer
from weft.control.store.log_store import StoreError
from weft.core import events
from weft.core.errors import WeftError
from weft.node.shepherd.supervise import become_subreaper
from weft.protocol import (
    Ack,
    DevicesChanged,
    FromCoordinator,
    FromDaemon,
    Hello,
    Leave,
    MeasuredRate,
    ProgressUpdate,
    Report,
    StopOrder,
    Synced,
    plain,
)
from weft.runtime import procfs
from weft.system.files import WrongKindError, open_regular
from weft.system.home import Home
from weft.system.lockfile import holder_of

TRY_AGAIN_S = 1.0
MOST_TRIES = 5
"""To read an environment that the disk does not give; then the job fails."""
FINAL = ("ended", "lost", "left")
MOST_WARNINGS, WARNING_LETTERS = 20, 300
ENVELOPE = ("type", "serial", "job", "attempt", "generation", "what")
"""Fields of a report that are not kept with it in the log."""

log = logging.getLogger(__name__)


class CoordinatorSession:
    """`environment` reads the environment of a job; `graces` are the grace periods that the coordinator is to use."""

    def __init__(
        self,
        environment: Callable[[int], dict[str, str]],
        graces: Mapping[str, float],
        *,
        strict_memory: bool = False,
        is_coordinator: Callable[[int], bool] = lambda pid: True,
    ) -> None:
        self.link = CoordinatorLink(self._receive, is_coordinator)
        self._reported: Sequence[str] = ()
        """The coordinator's own warnings."""
        self._environment = environment
        self._graces = graces
        self._strict_memory = strict_memory
        self._writer: Writer | None = None
        self._unread: dict[tuple[str, int], int] = {}
        """How often the environment of an attempt could not be read."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, writer: Writer) -> None:
        self._writer = writer

    def warnings(self) -> list[str]:
        return [*([self.link.refusal] if self.link.refusal else []), *self._reported]

    # ---- orders

    def send(self, orders: Sequence[Order]) -> None:
        """Without a coordinator nothing is sent: everything is sent when one says hello.

        An order that cannot be sent fails its own job; the others are sent.
        """
        for order in orders:
            if self.link.current is not None:
                self._send(order, self.link.current)

    def completed(self, order: Order) -> FromDaemon:
        """The message to send: with the environment of the job, and the settings that the node needs."""
        match order:
            case PendingRun(run, environment):
                filled = replace(run.launch, env=self._environment(environment), strict=self._strict_memory)
                return replace(run, launch=filled)
            case Synced():
                return replace(order, **self._graces)
        return order

    async def leave(self) -> None:
        """Tell the coordinator to exit."""
        if self.link.current is not None:
            self.link.current.send(Leave())
            await self.link.current.drain()

    def _send(self, order: Order, connection: NodeConnection) -> None:
        key = _key(order)
        try:
            connection.send(self.completed(order))
        except (sqlite3.Error, StoreError) as error:
            self._unread[key] = self._unread.get(key, 0) + 1
            if self._unread[key] < MOST_TRIES:
                log.warning("job %s: its environment cannot be read yet: %s", key[0], error)
                asyncio.get_running_loop().call_later(TRY_AGAIN_S, connection.abort)  # all orders are sent anew
                return
            self._refuse(order, f"its environment cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one must be sent
            self._refuse(order, str(error) or type(error).__name__)
        else:
            self._unread.pop(key, None)

    def _refuse(self, order: Order, why: str) -> None:
        """Fail its job, and stop the attempt if it is on the node from before."""
        job, attempt = _key(order)
        log.error("the order %s for job %s cannot be sent: %s", type(order).__name__, job, why)
        self._unread.pop((job, attempt), None)
        if isinstance(order, PendingRun):
            message = f"its order cannot be sent to the node: {why}"[:1000]
            self._begin(self._fail(AttemptReport(job, attempt, "refused", {"message": message})))
            self.send([StopOrder(job, attempt, order.run.generation)])

    async def _fail(self, report: AttemptReport) -> None:
        with contextlib.suppress(LeavingError):  # it is refused again after the next hello
            while True:
                try:
                    return await self._ask(report)
                except StoreError:  # a full disk
                    await asyncio.sleep(TRY_AGAIN_S)

    # ---- messages of the coordinator

    async def _receive(self, message: FromCoordinator, connection: NodeConnection) -> None:
        match message:
            case Hello():
                try:
                    await self._settled(connected_of(message), connection)
                except RejectedError:
                    await asyncio.sleep(TRY_AGAIN_S)
                    connection.close()
            case DevicesChanged():
                await self._settled(NodeDevices([plain(device) for device in message.devices]), connection)
            case Report():
                # In the background: the next one must not wait until this one is on disk.
                self._begin(self._report(message, connection))
            case MeasuredRate():
                measurement = measurement_of(message)
                if measurement is not None:
                    self._begin(self._observed(measurement))
            case ProgressUpdate():
                self._reported = [each[:WARNING_LETTERS] for each in message.warnings[:MOST_WARNINGS]]
                self._begin(self._observed(ProgressReport({job: plain(each) for job, each in message.jobs.items()})))

    async def _settled(self, found: NodeConnected | NodeDevices, connection: NodeConnection) -> None:
        """If it cannot be written the connection is closed, and the hello comes again."""
        try:
            await self._ask(found)
        except StoreError as error:
            log.warning("the connection to the coordinator is closed: %s", error)
            connection.close()

    async def _report(self, message: Report, connection: NodeConnection) -> None:
        report = report_of(message)
        if report is None:
            self.link.skip(f"a report of job {message.job[:40]} that is malformed")
        try:
            if report is not None:
                await self._ask(report)
        except (StoreError, LeavingError):
            connection.close()  # not acknowledged: it comes again with the next hello
            return
        except WeftError as error:  # it would fail again
            log.warning("a report of job %s is refused: %s", message.job, error.message)
            if message.what in FINAL:
                with contextlib.suppress(WeftError):
                    await self._ask(AttemptReport(message.job, message.attempt, "lost", {"message": error.message}))
        if message.serial is not UNSET:
            connection.send(Ack(message.serial))

    async def _observed(self, found: Measurement | ProgressReport) -> None:
        """Not acknowledged: what is lost is measured again."""
        with contextlib.suppress(WeftError):
            await self._ask(found)

    async def _ask(self, found: Input) -> None:
        assert self._writer is not None
        await self._writer.ask(found)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a message of the coordinator could not be handled", exc_info=task.exception())


def connected_of(message: Hello) -> NodeConnected:
    known = frozenset((each.job, each.attempt) for each in message.attempts)
    ended = frozenset((each.job, each.attempt) for each in message.attempts if each.ended)
    devices = [plain(device) for device in message.devices]
    return NodeConnected(message.node, devices, message.boot_id, known, ended, message.cpus or None)


def report_of(message: Report) -> AttemptReport | None:
    """None if it lacks what such a report must say."""
    if message.what in ("paused", "left") and message.step is UNSET:
        return None
    body = {name: value for name, value in plain(message).items() if name not in ENVELOPE}
    return AttemptReport(message.job, message.attempt, message.what, body)


def measurement_of(message: MeasuredRate) -> Measurement | None:
    """None if only one of the two sizes is known: a job may have written over the page that they come from."""
    sizes = (message.persistent_bytes, message.ephemeral_bytes)
    if (sizes[0] is None) != (sizes[1] is None):
        return None
    persistent_bytes, ephemeral_bytes = (None if size is None else int(size) for size in sizes)
    measured = events.Measured(
        message.job,
        message.generation,
        message.rate_hz,
        message.utilisation,
        persistent_bytes,
        ephemeral_bytes,
        tuple(sorted(message.neighbours)),
        int(message.steps),
        message.alone_hz,
        message.error,
        int(message.window or 0),
    )
    return Measurement(message.attempt, measured)


def _key(order: Order) -> tuple[str, int]:
    """The job and attempt that an order is about."""
    match order:
        case PendingRun(run):
            return run.job, run.attempt
        case Synced():
            return "", 0
    return order.job, order.attempt


# ---- The process: started when there is none, replaced when it does not answer, stopped.

LOOK_EVERY_S = 0.25
STARTING_S = 10.0
LEAVING_S = 10.0
MODULE = "weft.node.coordinator"
AGAIN_S = 1.0
"""Between two starts, for one that ends at once."""


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
