"""The node socket: connections of the coordinator. Messages are read and written here, and nothing is decided."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from weft.control.api.listener import peer_of
from weft.protocol import (
    VERSION,
    Ack,
    FromCoordinator,
    FromDaemon,
    Hello,
    ProtocolError,
    Refused,
    VersionError,
    from_coordinator,
    plain,
)
from weft.system.json_lines import LineError, encoded, read_message
from weft.system.request_limits import ORDER_LINE_BYTES, REPORT_LINE_BYTES

HELLO_S = 10.0
"""A connection that has not said hello by then is closed."""
MOST_CONNECTIONS = 16

log = logging.getLogger(__name__)


class NodeConnection:
    """One connection to the node socket."""

    def __init__(self, stream: asyncio.StreamWriter) -> None:
        self._stream = stream

    @property
    def pid(self) -> int:
        """Of the process at the other end."""
        pid, _ = peer_of(self._stream.get_extra_info("socket"))
        return pid

    def send(self, message: FromDaemon) -> None:
        """LineError if it cannot be sent. To a closed connection nothing is sent: a hello on a new one follows."""
        line = encoded(plain(message), ORDER_LINE_BYTES)
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._stream.write(line)

    async def drain(self) -> None:
        with contextlib.suppress(OSError):
            await self._stream.drain()

    def close(self) -> None:
        self._stream.close()

    def abort(self) -> None:
        self._stream.transport.abort()


class CoordinatorLink:
    """One coordinator at a time: the latest hello wins. `is_coordinator` says whether a process may be one."""

    def __init__(
        self,
        receive: Callable[[FromCoordinator, NodeConnection], Awaitable[None]],
        is_coordinator: Callable[[int], bool] = lambda pid: True,
    ) -> None:
        self.current: NodeConnection | None = None
        """The connection of the coordinator."""
        self.heard_s = time.monotonic()
        self.skipped = 0
        """Lines of the coordinator that were no messages, or malformed."""
        self.refusal = ""
        """Why the last hello of a coordinator was refused."""
        self._receive = receive
        self._is_coordinator = is_coordinator
        self._connections: list[NodeConnection] = []

    @property
    def is_up(self) -> bool:
        return self.current is not None

    async def admit(self, connection: socket.socket) -> None:
        """Take what comes over a new connection, in the background."""
        reader = asyncio.StreamReader(limit=REPORT_LINE_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader, self._serve)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, connection)

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    async def _serve(self, reader: asyncio.StreamReader, stream: asyncio.StreamWriter) -> None:
        self._make_room()
        connection = NodeConnection(stream)
        self._connections.append(connection)
        try:
            while await self._take_next(reader, connection):
                pass
        except TimeoutError:
            log.warning("a connection to the node socket sent no hello; it is closed")
        except ConnectionError as error:
            log.warning("the connection to the coordinator broke: %s", error)
        finally:
            if self.current is connection:
                self.current = None
            self._connections.remove(connection)
            connection.close()

    def _make_room(self) -> None:
        """Close the connection that has waited longest without becoming the coordinator's."""
        others = [each for each in self._connections if each is not self.current]
        if len(others) >= MOST_CONNECTIONS:
            others[0].abort()

    async def _take_next(self, reader: asyncio.StreamReader, connection: NodeConnection) -> bool:
        """Whether to go on. A malformed line of the coordinator is skipped; any other process is disconnected."""
        try:
            async with asyncio.timeout(None if self.current is connection else HELLO_S):
                read = await read_message(reader)
            if read is None:
                return False
            if read["type"] == "hello":
                return await self._greeted(read, connection)
            if self.current is not connection:
                log.warning("a message %.40s without a hello; its connection is closed", read["type"])
                return False
            await self._take(read, connection)
        except (ConnectionError, TimeoutError):
            raise
        except LineError as error:
            self.skip(error.message)
            return self.current is connection
        except Exception as error:  # noqa: BLE001 - one message must not close the connection for all others
            self.skip(f"{type(error).__name__}: {error}", error)
        return True

    async def _take(self, read: dict[str, Any], connection: NodeConnection) -> None:
        try:
            message = from_coordinator(read)
        except ProtocolError as error:
            self.skip(error.message)
            if read["type"] == "report" and isinstance(read.get("serial"), int):  # it would be the same again
                connection.send(Ack(read["serial"]))
            return
        with self._hearing():
            await self._receive(message, connection)

    async def _greeted(self, read: dict[str, Any], connection: NodeConnection) -> bool:
        """Whether this hello is a coordinator's. A process that may not be one is told nothing."""
        pid = connection.pid
        if not self._is_coordinator(pid):
            log.error("process %d says hello, but another process is the coordinator", pid)
            return False
        try:
            hello = from_coordinator(read)
        except VersionError as error:
            refusal = f"{error.message}; {error.hint}"
            if refusal != self.refusal:  # it tries again and again
                log.error("process %d is refused: %s", pid, refusal)  # noqa: TRY400 - it is no fault of the daemon
            self.refusal = refusal
            connection.send(Refused(VERSION, self.refusal))
            return False
        except ProtocolError as error:
            log.error("process %d is refused: %s", pid, error)  # noqa: TRY400 - likewise
            return False
        assert isinstance(hello, Hello)
        self.current, self.refusal = connection, ""
        with self._hearing():
            await self._receive(hello, connection)
        return True

    @contextlib.contextmanager
    def _hearing(self) -> Iterator[None]:
        """While the daemon handles a message, which a long decision may delay, its coordinator is not silent."""
        self.heard_s = math.inf
        try:
            yield
        finally:
            self.heard_s = time.monotonic()

    def skip(self, why: str, error: Exception | None = None) -> None:
        """Count a message that is not used."""
        self.skipped += 1
        if self.skipped & (self.skipped - 1) == 0:  # the first, the second, the fourth, …
            log.warning("a line at the node socket is skipped (%d so far): %s", self.skipped, why, exc_info=error)
