"""The coordinator's end of the line to the daemon: it connects for ever, and repeats reports until acknowledged."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.core.errors import WeftError
from weft.protocol import FromCoordinator, FromDaemon, ProtocolError, Report, from_daemon, job_progress, plain
from weft.system.json_lines import LineError, Message, encoded, read_message
from weft.system.request_limits import ORDER_LINE_BYTES, REPORT_LINE_BYTES

RETRY_S = 0.1
FAILED_S = 1.0  # until what could not be followed is asked for again
MOST_UNSENT_BYTES = 1 << 20
PLAIN = (str, int, float, type(None))
SHORT_LETTERS = 1_000
RUN_ORDER = re.compile(rb'{"type": "run", "job": "([0-9_]{1,40})", "attempt": ([0-9]{1,15}), ')
"""How an order begins that is too long to be read."""

log = logging.getLogger(__name__)


class Link:
    """`hello` is what to say first; `receive` takes what the daemon says, `refuse` what is refused and why."""

    def __init__(
        self,
        socket: Path,
        hello: Callable[[], FromCoordinator],
        receive: Callable[[FromDaemon], None],
        refuse: Callable[[Message, str], None],
    ) -> None:
        self._socket = socket
        self._hello = hello
        self._receive = receive
        self._refuse = refuse
        self._writer: asyncio.StreamWriter | None = None
        self._serial = 0
        self._reports: dict[int, Report] = {}

    async def run(self) -> None:
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=ORDER_LINE_BYTES)
            except OSError:  # the daemon does not listen yet
                await asyncio.sleep(RETRY_S)
                continue
            try:
                self._greet()
                while await self._take_next(reader):
                    pass
            except ConnectionError as error:
                log.warning("the line to the daemon broke: %s", error)
            finally:
                self._writer.close()
                self._writer = None
            await asyncio.sleep(RETRY_S)

    def _greet(self) -> None:
        self.send(self._hello())
        for report in self._reports.values():
            self.send(report)

    async def _take_next(self, reader: asyncio.StreamReader) -> bool:
        """A line that is no message is skipped; if it is an order to run a job, that job fails."""
        try:
            message = await read_message(reader)
        except LineError as error:
            log.warning("a line of the daemon is skipped: %s", error.message)
            if order := RUN_ORDER.match(error.head):
                about = {"type": "run", "job": order[1].decode(), "attempt": int(order[2])}
                self._refuse(about, f"its order cannot be read: {error.message}")
            return True
        if message is not None:
            self._take(message)
        return message is not None

    def _take(self, message: Message) -> None:
        kind = message["type"]
        try:
            self._receive(from_daemon(message))
        except ProtocolError as error:
            log.warning("%s", error.message)
            self._refuse(message, error.message)
        except OSError as error:  # a full disk, say. What else the daemon says is not held up by it
            log.warning("the message %s cannot be followed yet: %s", kind, error)
            self._greet_again_in(FAILED_S)
        except WeftError as error:
            log.warning("the message %s cannot be followed: %s", kind, error)
            self._refuse(message, error.message)
        except Exception as error:
            log.exception("the message %s is not understood, or cannot be followed", kind)
            self._refuse(message, f"{type(error).__name__}: {error}")

    def _greet_again_in(self, seconds: float) -> None:
        """The daemon repeats everything to a coordinator that says hello anew."""
        if self._writer is not None:
            asyncio.get_running_loop().call_later(seconds, self._writer.transport.abort)

    def report(self, body: Message) -> None:
        """Told until it is acknowledged, by this connection or a later one."""
        self._serial += 1
        progress = {"progress": job_progress(body["progress"])} if "progress" in body else {}
        message = Report(serial=self._serial, **{**body, **progress})
        try:
            encoded(plain(message), REPORT_LINE_BYTES)
        except LineError as error:  # something in it was written by a job, and has no end
            log.warning("a report of job %s is shortened: %s", message.job, error.message)
            short: dict[str, Any] = {key: _short(value) for key, value in body.items() if isinstance(value, PLAIN)}
            message = Report(serial=self._serial, **short)
        self._reports[self._serial] = message
        self.send(message)

    def acknowledged(self, serial: int) -> Report | None:
        """The report that need not be told again; None if it had been acknowledged before."""
        return self._reports.pop(serial, None)

    def send(self, message: FromCoordinator) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write(encoded(plain(message), REPORT_LINE_BYTES))
        except LineError as error:
            log.warning("a message %s cannot be sent: %s", type(message).__name__, error.message)

    @property
    def is_choked(self) -> bool:
        """The daemon does not read what we say."""
        return self._writer is not None and self._writer.transport.get_write_buffer_size() > MOST_UNSENT_BYTES


def _short(value: object) -> object:
    return value[:SHORT_LETTERS] if isinstance(value, str) else value
