"""Between the web server and the routes: bodies are bounded while they are read, and the work for
a client that hangs up is cancelled."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class RefusedError(Exception):
    def __init__(self, refusal: tuple[int, str, str], *arguments: object) -> None:
        code, message, self.hint = refusal
        self.code, self.message = code, message.format(*arguments)
        super().__init__(self.message)


class Bodies:
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
        except RefusedError as refused:
            await _say(refused, send)

    def _check(self, size_bytes: int) -> None:
        if size_bytes > self._most_bytes:
            raise RefusedError(TOO_LARGE, self._most_bytes)

    async def _turn(self) -> None:
        try:
            async with asyncio.timeout(TURN_S):
                await self._turns.acquire()
        except TimeoutError:
            raise RefusedError(BUSY) from None

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
            raise RefusedError(TOO_SLOW, allowed_s) from None

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


async def _say(refused: RefusedError, send: Send) -> None:
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
