"""The daemon's end of the line to the coordinator: orders out, reports in, each acknowledged once it is on disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.control.inputs import Devices, Hello, Measurement, Report
from weft.control.measuring import growth_of, measurement_of
from weft.control.orders import Order
from weft.control.record import Record
from weft.control.store import StoreError
from weft.control.writer import Writer
from weft.core.errors import WeftError
from weft.node.regular import clear_place

PROTOCOL = 1
LONGEST_LINE_BYTES = 64 << 20
ABOUT = ("type", "serial", "job", "attempt", "generation", "what")

log = logging.getLogger(__name__)


class Link:
    """One coordinator at a time: who says hello last is it."""

    def __init__(
        self, environment: Callable[[int], dict[str, str]], graces: dict[str, float], *, strict_memory: bool = False
    ) -> None:
        self.is_up = False
        self.heard_s = time.monotonic()
        self._environment = environment
        self._graces = graces
        self._strict_memory = strict_memory
        self._writer: Writer | None = None
        self._stream: asyncio.StreamWriter | None = None

    def join(self, writer: Writer) -> None:
        self._writer = writer

    async def listen(self, path: Path) -> asyncio.AbstractServer:
        if aside := clear_place(path):
            log.warning("something else than a socket was at %s; it is %s now", path, aside.name)
        server = await asyncio.start_unix_server(self._serve, path, limit=LONGEST_LINE_BYTES)
        os.chmod(path, 0o600)  # noqa: PTH101
        return server

    def send(self, orders: Sequence[Order]) -> None:
        """Without a coordinator nothing is sent: it hears of everything when it says hello."""
        if not self.is_up or self._stream is None:
            return
        for order in orders:
            self._write(self._stream, self._filled(order))

    async def leave(self) -> None:
        if self._stream is not None:
            self._write(self._stream, {"type": "leave"})
            with contextlib.suppress(OSError):
                await self._stream.drain()

    def _filled(self, order: Order) -> dict[str, Any]:
        if order["type"] == "synced":
            return {**order, **self._graces}
        if order["type"] != "run":
            return order
        rest = {key: value for key, value in order.items() if key != "environment"}
        filled = {"env": self._environment(order["environment"]), "strict": self._strict_memory}
        return {**rest, "launch": {**order["launch"], **filled}}

    async def _serve(self, reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                await self._take(json.loads(line), stream)
        except (ConnectionError, ValueError, StoreError) as error:
            log.warning("the line to the coordinator broke: %s", error)
        finally:
            if self._stream is stream:
                self.is_up, self._stream = False, None
            stream.close()

    async def _take(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        self.heard_s = time.monotonic()
        match message["type"]:
            case "hello":
                await self._hello(message, stream)
            case "report":
                # In the background: the next one must not wait until this one is on disk.
                task = asyncio.create_task(self._report(message, stream))
                task.add_done_callback(_raise)
            case "devices":
                await self._ask(Devices(message["devices"]))
            case "measured":
                self._tell(measurement_of(message))
            case "progress":
                self._progress(message["jobs"])

    async def _hello(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        if message.get("protocol") != PROTOCOL:
            log.error("a coordinator speaks protocol %s; this daemon %d", message.get("protocol"), PROTOCOL)
            stream.close()
            return
        self._stream, self.is_up = stream, True
        try:
            await self._ask(_hello(message))
        except StoreError:
            stream.close()  # it comes again

    async def _report(self, message: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        body = {key: value for key, value in message.items() if key not in ABOUT}
        try:
            await self._ask(Report(message["job"], message["attempt"], message["what"], body))
        except StoreError:
            stream.close()  # not acknowledged: it comes again with the next hello
            return
        self._write(stream, {"type": "ack", "serial": message["serial"]})

    def _tell(self, word: Measurement | None) -> None:
        if word is not None:
            asyncio.create_task(self._measured(word)).add_done_callback(_raise)

    async def _measured(self, word: Measurement) -> None:
        """Not acknowledged: what is lost is measured again."""
        with contextlib.suppress(WeftError):
            await self._ask(word)

    async def _ask(self, word: Hello | Devices | Report | Measurement) -> None:
        assert self._writer is not None
        await self._writer.ask(word)

    def _progress(self, jobs: dict[str, dict[str, Any]]) -> None:
        """Not logged: it is known again a second later."""
        assert self._writer is not None
        for job_id, said in jobs.items():
            record: Record | None = self._writer.desk.records.get(job_id)
            if record is not None and record.attempt == said.get("attempt"):
                record.note(said)
                self._tell(growth_of(self._writer.desk, job_id, said))

    def _write(self, stream: asyncio.StreamWriter, message: dict[str, Any]) -> None:
        with contextlib.suppress(ConnectionError, RuntimeError):
            stream.write(json.dumps(message).encode() + b"\n")


def _hello(message: dict[str, Any]) -> Hello:
    attempts = frozenset((each["job"], each["attempt"]) for each in message["attempts"])
    return Hello(message["node"], message["devices"], message["boot_id"], attempts)


def _raise(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.error("a report could not be taken in", exc_info=task.exception())
