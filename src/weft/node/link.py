"""The coordinator's end of the line to the daemon: it connects for ever, and repeats reports until acknowledged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.core.errors import WeftError

RETRY_S = 0.1
FAILED_S = 1.0  # until what could not be followed is asked for again
LONGEST_LINE_BYTES = 64 << 20
MOST_UNSENT_BYTES = 1 << 20

Message = dict[str, Any]

log = logging.getLogger(__name__)


class Link:
    """`hello` is what to say first; `receive` takes what the daemon says."""

    def __init__(self, socket: Path, hello: Callable[[], Message], receive: Callable[[Message], None]) -> None:
        self._socket = socket
        self._hello = hello
        self._receive = receive
        self._writer: asyncio.StreamWriter | None = None
        self._serial = 0
        self._reports: dict[int, Message] = {}

    async def run(self) -> None:
        while True:
            try:
                reader, self._writer = await asyncio.open_unix_connection(self._socket, limit=LONGEST_LINE_BYTES)
            except OSError:  # nobody listens yet
                await asyncio.sleep(RETRY_S)
                continue
            try:
                self._greet()
                while line := await reader.readline():
                    self._take(line)
            except (ConnectionError, ValueError) as error:
                log.warning("the line to the daemon broke: %s", error)
            finally:
                self._writer.close()
                self._writer = None
            await asyncio.sleep(RETRY_S)

    def _greet(self) -> None:
        self.send(self._hello())
        for report in self._reports.values():
            self.send(report)

    def _take(self, line: bytes) -> None:
        message = json.loads(line)
        try:
            self._receive(message)
        except (KeyError, TypeError, ValueError, WeftError) as error:
            log.warning("the message %s is not understood, or cannot be followed: %r", message.get("type"), error)
        except OSError as error:  # a full disk, say. What else the daemon says is not held up by it
            log.warning("the message %s cannot be followed yet: %s", message.get("type"), error)
            self._greet_again_in(FAILED_S)

    def _greet_again_in(self, seconds: float) -> None:
        """The daemon repeats everything to who says hello anew."""
        if self._writer is not None:
            asyncio.get_running_loop().call_later(seconds, self._writer.transport.abort)

    def report(self, body: Message) -> None:
        """Told until it is acknowledged, by this connection or a later one."""
        self._serial += 1
        self._reports[self._serial] = {"type": "report", "serial": self._serial, **body}
        self.send(self._reports[self._serial])

    def acknowledged(self, serial: int) -> Message | None:
        """The report that need not be told again; None if it had been acknowledged before."""
        return self._reports.pop(serial, None)

    def send(self, message: Message) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(message).encode() + b"\n")

    @property
    def is_choked(self) -> bool:
        """The daemon does not read what we say."""
        return self._writer is not None and self._writer.transport.get_write_buffer_size() > MOST_UNSENT_BYTES
