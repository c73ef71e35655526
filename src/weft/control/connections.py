"""The REST connections of the daemon: how many there may be, and which are closed."""

from __future__ import annotations

import asyncio
import json
import socket
import time

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.system import descriptors

MOST = 1_000
LEAST = 8
IDLE_S = 10.0
"""For a connection without a request, or with part of the head of one."""
STUCK_S = 300.0
"""For an answer of which the client reads nothing: it may be looked at page by page."""
STALLED_S = 5.0
"""The same, when there is no other place for a new connection."""
SWEEP_EVERY_S = 1.0
AGAIN_IN_S = 1
FULL = json.dumps({"error": "weft has too many connections", "hint": "try again; many waiting clients?"}).encode()
REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    b"Retry-After: %d\r\nContent-Length: %d\r\n\r\n%s" % (AGAIN_IN_S, len(FULL), FULL)
)


def most_connections() -> int:
    """Each may have a log open besides. What is left is for the log on disk, the link and the coordinator."""
    limit = descriptors.limit()
    return max(LEAST, min(MOST, (limit - min(2 * descriptors.RESERVED, limit // 2)) // 2))


class RestConnection(H11Protocol):
    """One that knows since when it makes no progress."""

    since_s = 0.0
    _before: tuple[object, int] = (None, 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.since_s = time.monotonic()
        super().connection_made(transport)

    @property
    def is_served(self) -> bool:
        """It has a request that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def stalled_s(self, now_s: float) -> float:
        """For how long nothing came of it. A request that waits for its answer is not idle, however long it takes.

        Bytes that are received do not count: a head that comes a byte at a time is as good as none.
        """
        unread_bytes = self.transport.get_write_buffer_size()
        present = (self.cycle, unread_bytes)
        if present != self._before or (self.is_served and not unread_bytes):
            self._before, self.since_s = present, now_s
        return now_s - self.since_s


class Connections:
    """Those of one server. When all places are taken, the one idle for longest is closed; all busy, none is let in."""

    def __init__(self, server: uvicorn.Server, most: int) -> None:
        self._server = server
        self._most = most
        self.refused = 0
        self.is_full = False

    @property
    def _present(self) -> list[RestConnection]:
        found = self._server.server_state.connections
        return [each for each in found if isinstance(each, RestConnection)]

    async def admit(self, connection: socket.socket) -> None:
        present = self._present
        self.is_full = len(present) >= self._most and not _make_room(present)
        if self.is_full:
            self.refused += 1
            _refuse(connection)
            return
        await asyncio.get_running_loop().connect_accepted_socket(self._made, connection)

    def _made(self) -> RestConnection:
        return RestConnection(config=self._server.config, server_state=self._server.server_state, app_state={})

    async def sweep(self) -> None:
        """Close what is stuck or idle, for ever."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now_s = time.monotonic()
            for each in self._present:
                if each.stalled_s(now_s) > (STUCK_S if each.is_served else IDLE_S):
                    each.transport.abort()
            self.is_full = self.is_full and len(self._present) >= self._most

    def warnings(self) -> list[str]:
        return [f"there are {self._most} connections, and no more are let in"] if self.is_full else []


def _make_room(present: list[RestConnection]) -> bool:
    """Close the connection that has made no progress for longest; False if none is idle or stalled."""
    now_s = time.monotonic()
    idle = [each for each in present if not each.is_served or each.stalled_s(now_s) > STALLED_S]
    if not idle:
        return False
    oldest = min(idle, key=lambda each: each.since_s)
    oldest.connections.discard(oldest)  # counted no more; its descriptor is closed before the next one is accepted
    oldest.transport.abort()
    return True


def _refuse(connection: socket.socket) -> None:
    try:
        connection.send(REFUSAL)
    except OSError:
        pass
    finally:
        connection.close()
