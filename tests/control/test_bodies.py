"""Bodies are bounded while they are read, few large ones at a time; work for a client that has gone is given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from weft.control.api import connections as bodies
from weft.control.api.connections import LARGE_AT_ONCE, LARGE_BYTES, BodyLimits

MOST = 4 * LARGE_BYTES
Message = dict[str, Any]


class Client:
    """Sends these pieces of a body, then waits; `gone` hangs up."""

    def __init__(self, pieces: Iterable[bytes] = (), **headers: str) -> None:
        self.pieces = list(pieces)
        self.gone = asyncio.Event()
        self.heard: list[Message] = []
        named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
        self.scope = {"type": "http", "method": "POST", "headers": named}

    async def receive(self) -> Message:
        if self.pieces:
            piece = self.pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self.pieces)}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.heard.append(message)

    @property
    def status(self) -> int:
        return int(self.heard[0]["status"])

    @property
    def problem(self) -> Message:
        told: Message = json.loads(self.heard[1]["body"])
        return told


async def echo(scope: Message, receive: Any, send: Any) -> None:
    message = await receive()
    assert not message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


async def served(client: Client, app: Any = echo) -> Client:
    async with asyncio.timeout(30):
        await BodyLimits(app, MOST)(client.scope, client.receive, client.send)
    return client


def test_a_body_is_handed_over_whole() -> None:
    client = asyncio.run(served(Client([b"a", b"b", b"c"], content_length="3")))
    assert (client.status, client.heard[1]["body"]) == (200, b"abc")


def test_a_body_that_claims_too_much_is_refused_unread() -> None:
    client = asyncio.run(served(Client([b"x"], content_length=str(MOST + 1))))
    assert client.status == 413
    assert client.problem["hint"]
    assert client.pieces == [b"x"]


def test_chunks_are_refused_as_soon_as_they_are_too_many() -> None:
    client = asyncio.run(served(Client([bytes(LARGE_BYTES)] * 100, transfer_encoding="chunked")))
    assert client.status == 413
    assert len(client.pieces) == 95


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PIECE_S", 0.0)
    client = asyncio.run(served(Client([], content_length="10")))
    assert client.status == 408
    assert (b"connection", b"close") in client.heard[0]["headers"]


def test_a_client_that_goes_before_its_body_ends_is_answered_nothing() -> None:
    async def story() -> None:
        client = Client([], content_length="10")
        client.gone.set()
        assert (await served(client)).heard == []

    asyncio.run(story())


def test_only_some_large_bodies_are_worked_on_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "TURN_S", 0.05)

    async def story() -> None:
        begun, may_end = list[int](), asyncio.Event()

        async def slow(scope: Message, receive: Any, send: Any) -> None:
            begun.append(1)
            await may_end.wait()
            await echo(scope, receive, send)

        app = BodyLimits(slow, MOST)
        large = [Client([bytes(LARGE_BYTES + 1)], content_length=str(LARGE_BYTES + 1)) for _ in range(LARGE_AT_ONCE)]
        working = [asyncio.create_task(app(each.scope, each.receive, each.send)) for each in large]
        while len(begun) < LARGE_AT_ONCE:
            await asyncio.sleep(0)
        late = Client([bytes(LARGE_BYTES + 1)], content_length=str(LARGE_BYTES + 1))
        await app(late.scope, late.receive, late.send)
        assert late.status == 503
        assert (b"retry-after", b"1") in late.heard[0]["headers"]
        small = Client([b"x"], content_length="1")
        passing = asyncio.create_task(app(small.scope, small.receive, small.send))
        may_end.set()
        await asyncio.gather(passing, *working)
        assert {each.status for each in (small, *large)} == {200}

    asyncio.run(story())


def test_what_only_reads_ends_when_its_client_has_gone() -> None:
    async def story() -> None:
        ends = list[str]()

        async def wait(scope: Message, receive: Any, send: Any) -> None:
            client.gone.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        client = Client([b""])
        client.scope["method"] = "GET"
        await served(client, wait)
        assert ends == ["cancelled"]
        assert client.heard == []

    asyncio.run(story())


def test_an_error_of_a_route_comes_through() -> None:
    async def broken(scope: Message, receive: Any, send: Any) -> None:
        raise KeyError("a fault")

    for method in ("GET", "POST"):
        client = Client([b""], content_length="0")
        client.scope["method"] = method
        with pytest.raises(KeyError):
            asyncio.run(served(client, broken))
