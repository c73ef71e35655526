"""Limits on REST connections and on the bodies of requests.

At most so many connections are open; idle and stuck ones are closed. A body is bounded while it is read, and the work
for a client that disconnects is cancelled.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
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

LARGE_BYTES = 1 << 20
LARGE_AT_ONCE = 4
"""Bodies of more than LARGE_BYTES that are read or worked on at a time; others wait for their turn."""
TURN_S = 20.0
PIECE_S = 10.0
"""Between two pieces of a body."""
SLOWEST_BYTES_PER_S = 256 << 10
TOO_SLOW = (408, "the body of the request did not come within {0:.0f} s", "is the client stopped?")
BUSY = (503, "other large requests are being worked on", "try again")
TOO_LARGE = (
    413,
    "the body of the request has more than {0:,} bytes",
    "put large data into a file and pass its path; unset variables that the job does not need",
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


class BodyRefusedError(Exception):
    def __init__(self, refusal: tuple[int, str, str], *arguments: object) -> None:
        code, message, self.hint = refusal
        self.code, self.message = code, message.format(*arguments)
        super().__init__(self.message)


class BodyLimits:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self._most_bytes = most_bytes
        self._turns = asyncio.Semaphore(LARGE_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] in ("GET", "HEAD"):
            await self._while_connected(scope, receive, send)
        else:
            await self._with_body(scope, receive, send)

    async def _while_connected(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What only reads is cancelled when its client has gone: a wait may last for an hour."""
        gone = asyncio.Event()
        messages = [{"type": "http.request", "body": b"", "more_body": False}]

        async def given() -> Message:
            if messages:
                return messages.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        work = asyncio.ensure_future(self._app(scope, given, send))
        watching = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({work, watching}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            watching.cancel()
            work.cancel()  # without effect if it is done
        with suppress(asyncio.CancelledError):
            await work

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        claimed = _content_length(scope)
        is_large = claimed is None or claimed > LARGE_BYTES
        try:
            if not is_large:
                await self._answer(await self._read(receive, claimed or 0), scope, receive, send)
                return
            self._check(claimed or 0)
            await self._turn()
            try:
                await self._answer(await self._read(receive, self._most_bytes), scope, receive, send)
            finally:
                self._turns.release()
        except BodyRefusedError as refused:
            await _say(refused, send)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._most_bytes:
            raise BodyRefusedError(TOO_LARGE, self._most_bytes)

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                await self._turns.acquire()
        except TimeoutError:
            raise BodyRefusedError(BUSY) from None

    async def _read(self, receive: Receive, most_bytes: int) -> bytes | None:
        """The whole body; None if the client went away before its end."""
        body = bytearray()
        allowed_s = PIECE_S + most_bytes / SLOWEST_BYTES_PER_S
        try:
            async with asyncio.timeout(allowed_s):
                while True:
                    async with asyncio.timeout(PIECE_S):
                        message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    self._check(len(body))
                    if not message.get("more_body"):
                        return bytes(body)
        except TimeoutError:
            raise BodyRefusedError(TOO_SLOW, allowed_s) from None

    async def _answer(self, body: bytes | None, scope: Scope, receive: Receive, send: Send) -> None:
        if body is None:
            return
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def given() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, given, send)


def _content_length(scope: Scope) -> int | None:
    """None for a chunked body, whose length is seen when it is there. The web server accepts only a number."""
    found: dict[bytes, bytes] = dict(scope["headers"])
    if b"transfer-encoding" in found:
        return None
    return int(found.get(b"content-length", b"0"))


async def _say(refused: BodyRefusedError, send: Send) -> None:
    """The rest of the body is read and dropped by the web server, so that the client gets to read this."""
    text = json.dumps({"error": refused.message, "hint": refused.hint}).encode("ascii")
    headers: list[tuple[bytes, Any]] = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(text)),
    ]
    if refused.code == 503:
        headers.append((b"retry-after", b"1"))
    if refused.code == 408:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refused.code, "headers": headers})
    await send({"type": "http.response.body", "body": text})
