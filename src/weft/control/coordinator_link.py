"""The daemon's end of the connection to the coordinator: orders out, reports in, each acknowledged once on disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from weft.control.api.listener import peer_of
from weft.control.loop.dispatch import Order
from weft.control.loop.inputs import Devices, Hello, Measurement, Report
from weft.control.loop.job_record import JobRecord
from weft.control.loop.report_checks import devices_of, hello_of, measurement_of, progress_of, report_of, warnings_of
from weft.control.loop.reports import first_step_of, growth_of
from weft.control.loop.writer import LeavingError, RejectedError, Writer
from weft.control.store.log_store import StoreError
from weft.core.errors import WeftError
from weft.jsonlines import LineError, encoded, read_message
from weft.limits import ORDER_LINE_BYTES, REPORT_LINE_BYTES

PROTOCOL = 1
HELLO_S = 10.0
"""A connection that has not said hello by then is closed."""
MOST_LINES = 16
TRY_AGAIN_S = 1.0
MOST_TRIES = 5
"""To read an environment that the disk does not give; then the job fails."""
FINAL = ("ended", "lost", "left")

log = logging.getLogger(__name__)


class CoordinatorLink:
    """One coordinator at a time: the latest hello wins. `is_coordinator` says whether a process may be one."""

    def __init__(
        self,
        environment: Callable[[int], dict[str, str]],
        graces: dict[str, float],
        *,
        strict_memory: bool = False,
        is_coordinator: Callable[[int], bool] = lambda pid: True,
    ) -> None:
        self.is_up = False
        self.heard_s = time.monotonic()
        self.skipped = 0
        """Lines of the coordinator that were no messages, or made no sense."""
        self.warnings: list[str] = []
        """The coordinator's own."""
        self._environment = environment
        self._graces = graces
        self._strict_memory = strict_memory
        self._is_coordinator = is_coordinator
        self._writer: Writer | None = None
        self._stream: asyncio.StreamWriter | None = None
        self._streams: list[asyncio.StreamWriter] = []
        self._unread: dict[tuple[str, int], int] = {}
        """How often the environment of an attempt could not be read."""
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self, writer: Writer) -> None:
        self._writer = writer

    async def admit(self, connection: socket.socket) -> None:
        """Take what comes over a new connection, in the background."""
        reader = asyncio.StreamReader(limit=REPORT_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader, self._serve)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)

    def send(self, orders: Sequence[Order]) -> None:
        """Without a coordinator nothing is sent: it hears of everything when it says hello.

        An order that cannot be sent fails its own job; the others are sent.
        """
        for order in orders:
            if self.is_up and self._stream is not None:
                self._send(order, self._stream)

    def _send(self, order: Order, stream: asyncio.StreamWriter) -> None:
        key = (order.get("job", ""), order.get("attempt", 0))
        try:
            line = encoded(self._filled(order), ORDER_LINE_BYTES)
        except (sqlite3.Error, StoreError) as error:
            self._unread[key] = self._unread.get(key, 0) + 1
            if self._unread[key] < MOST_TRIES:
                log.warning("job %s: its environment cannot be read yet: %s", key[0], error)
                asyncio.get_running_loop().call_later(TRY_AGAIN_S, stream.transport.abort)  # all orders are sent anew
                return
            self._refuse(order, f"its environment cannot be read: {error}")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the next one must be sent
            self._refuse(order, str(error) or type(error).__name__)
        else:
            self._unread.pop(key, None)
            _write(stream, line)

    def _refuse(self, order: Order, why: str) -> None:
        """Fail its job, and stop the attempt if it is on the node from before."""
        log.error("the order %s for job %s cannot be sent: %s", order.get("type"), order.get("job"), why)
        self._unread.pop((order.get("job", ""), order.get("attempt", 0)), None)
        if order["type"] == "run":
            message = f"its order cannot be sent to the node: {why}"[:1000]
            self._begin(self._fail(Report(order["job"], order["attempt"], "refused", {"message": message})))
            self.send([{key: order[key] for key in ("job", "attempt", "generation")} | {"type": "stop"}])

    async def _fail(self, report: Report) -> None:
        with contextlib.suppress(LeavingError):  # it is refused again after the next hello
            while True:
                try:
                    return await self._ask(report)
                except StoreError:  # a full disk
                    await asyncio.sleep(TRY_AGAIN_S)

    async def leave(self) -> None:
        if self._stream is not None:
            _write(self._stream, encoded({"type": "leave"}, ORDER_LINE_BYTES))
            with contextlib.suppress(OSError):
                await self._stream.drain()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _filled(self, order: Order) -> dict[str, Any]:
        if order["type"] == "synced":
            return {**order, **self._graces}
        if order["type"] != "run":
            return order
        rest = {key: value for key, value in order.items() if key != "environment"}
        filled = {"env": self._environment(order["environment"]), "strict": self._strict_memory}
        return {**rest, "launch": {**order["launch"], **filled}}

    async def _serve(self, reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
        self._make_room()
        self._streams.append(stream)
        try:
            while await self._take_next(reader, stream):
                pass
        except TimeoutError:
            log.warning("a connection to the node socket said no hello; it is closed")
        except (ConnectionError, StoreError) as error:
            log.warning("the line to the coordinator broke: %s", error)
        finally:
            if self._stream is stream:
                self.is_up, self._stream = False, None
            self._streams.remove(stream)
            stream.close()

    def _make_room(self) -> None:
        """Close the connection that has waited longest without becoming the coordinator's."""
        others = [stream for stream in self._streams if stream is not self._stream]
        if len(others) >= MOST_LINES:
            others[0].transport.abort()

    async def _take_next(self, reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> bool:
        """One line of the coordinator that is no message is skipped. Anyone else is not listened to any further."""
        try:
            async with asyncio.timeout(None if self._stream is stream else HELLO_S):
                message = await read_message(reader)
            if message is None:
                return False
            if message["type"] == "hello":
                return await self._hello(message, stream)
            if self._stream is not stream:
                log.warning("a message %.40s without a hello; its connection is closed", message["type"])
                return False
            with self._hearing():
                await self._take(message, stream)
        except (ConnectionError, StoreError, TimeoutError):
            raise
        except LineError as error:
            self._skip(error.message)
            return self._stream is stream
        except Exception as error:  # noqa: BLE001 - one message must not end the line for all the others
            self._skip(f"{type(error).__name__}: {error}", error)
        return True

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[None]:
        """While the daemon takes a message in, which a long decision may delay, its coordinator is not silent."""
        self.heard_s = math.inf
        try:
            yield
        finally:
            self.heard_s = time.monotonic()

    def _skip(self, why: str, error: Exception | None = None) -> None:
        self.skipped += 1
        if self.skipped & (self.skipped - 1) == 0:  # the first, the second, the fourth, …
            log.warning("a line at the node socket is skipped (%d so far): %s", self.skipped, why, exc_info=error)

    async def _take(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        match message["type"]:
            case "report":
                # In the background: the next one must not wait until this one is on disk.
                self._begin(self._report(message, stream))
            case "devices":
                devices = devices_of(message)
                if devices is None:
                    self._skip("devices that make no sense")
                else:
                    await self._ask(Devices(devices))
            case "measured":
                self._tell(measurement_of(message))
            case "progress":
                self.warnings = warnings_of(message)
                self._begin(self._progress(message.get("jobs")))

    async def _hello(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> bool:
        pid, _ = peer_of(stream.get_extra_info("socket"))
        hello = hello_of(message)
        if message.get("protocol") != PROTOCOL:
            log.error("process %d speaks protocol %.40r; this daemon %d", pid, message.get("protocol"), PROTOCOL)
        elif hello is None:
            log.error("process %d says a hello that makes no sense", pid)
        elif not self._is_coordinator(pid):
            log.error("process %d says hello, but another process is the coordinator", pid)
        else:
            self._stream, self.is_up = stream, True
            try:
                with self._hearing():
                    await self._ask(hello)  # if it cannot be written the line is closed, and the hello comes again
            except RejectedError:
                await asyncio.sleep(TRY_AGAIN_S)
                return False
            return True
        return False

    async def _report(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        report = report_of(message)
        if report is None:
            self._skip(f"a report of job {str(message.get('job'))[:40]} that makes no sense")
        try:
            if report is not None:
                await self._ask(report)
        except (StoreError, LeavingError):
            stream.close()  # not acknowledged: it comes again with the next hello
            return
        except WeftError as error:  # it would fail again
            log.warning("a report of job %s is refused: %s", message["job"], error.message)
            if report is not None and report.what in FINAL:
                with contextlib.suppress(WeftError):
                    await self._ask(Report(report.job_id, report.attempt, "lost", {"message": error.message}))
        if isinstance(message.get("serial"), int):
            _write(stream, encoded({"type": "ack", "serial": message["serial"]}, ORDER_LINE_BYTES))

    def _tell(self, word: Measurement | None) -> None:
        if word is not None:
            self._begin(self._measured(word))

    async def _measured(self, word: Measurement) -> None:
        """Not acknowledged: what is lost is measured again."""
        with contextlib.suppress(WeftError):
            await self._ask(word)

    async def _ask(self, word: Hello | Devices | Report | Measurement) -> None:
        assert self._writer is not None
        await self._writer.ask(word)

    async def _progress(self, jobs: object) -> None:
        """Not logged: it is known again a second later. Not during an instant: the desk is then another thread's."""
        assert self._writer is not None
        async with self._writer.changed:
            for job_id, said in jobs.items() if isinstance(jobs, dict) else ():
                record: JobRecord | None = self._writer.control.records.get(job_id)
                told = progress_of(said)
                if record is not None and record.attempt == told.get("attempt"):
                    record.note(told)
                    self._tell(first_step_of(self._writer.control, job_id, told))
                    self._tell(growth_of(self._writer.control, job_id, told))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a report could not be taken in", exc_info=task.exception())


def _write(stream: asyncio.StreamWriter, line: bytes) -> None:
    with contextlib.suppress(ConnectionError, RuntimeError):
        stream.write(line)
