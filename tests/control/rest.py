"""The whole of the control plane but its coordinator, answering over HTTP from a thread of the test."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from waiting import PATIENCE_S
from weft.control.api.app import make_app
from weft.control.clock import Clock
from weft.control.coordinator_session import CoordinatorSession
from weft.control.loop.inputs import Input
from weft.control.loop.writer import Writer
from weft.control.service import ControlService
from weft.control.store.log_store import LogStore
from weft.control.store.replay import load_control_state
from weft.policies.loader import policies_asked
from weft.protocol import plain
from weft.system.home import Home
from weft.system.settings import Settings


class Served:
    def __init__(self, folder: Path, policy: str) -> None:
        self._folder = folder
        self._policy = policy
        self._ready = threading.Event()
        self.sent: list[dict[str, Any]] = []
        self.port = 0
        self._thread = threading.Thread(target=self._live)

    def _live(self) -> None:
        asyncio.run(self._serve())
        self._store.close()  # now that no thread of the loop writes any more

    async def _serve(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        home = Home(self._folder)
        store = self._store = LogStore(home.database)
        store._db.execute("PRAGMA synchronous = OFF")
        named = policies_asked(self._policy)[0]
        session = CoordinatorSession(store.environment, {})
        self.writer = Writer(
            store,
            Clock(),
            lambda: load_control_state(store, named.build(), {}),
            lambda orders: self.sent.extend(plain(session.completed(order)) for order in orders),
            30.0,
            5_000,
        )
        self.service = ControlService(home, store, self.writer, session.link, named, Settings())
        config = uvicorn.Config(make_app(self.service), port=0, log_config=None, access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        loop = asyncio.create_task(self.writer.run())
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.001)
        self.port = server.servers[0].sockets[0].getsockname()[1]
        self._ready.set()
        await self._over.wait()
        self.failed = loop.done()
        server.should_exit = server.force_exit = True
        loop.cancel()
        await asyncio.gather(loop, serving, return_exceptions=True)

    def open(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(30)
        assert not self.failed, "the writer has given up"

    # ---- from the test's thread

    def tell(self, word: Input) -> Any:
        """What a node says."""
        return asyncio.run_coroutine_threadsafe(self.writer.ask(word), self._loop).result(30)

    def ask(self, method: str, path: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, {"Content-Type": "application/json"} if sent is not None else {})
            answer = connection.getresponse()
            text = answer.read()
            is_json = answer.headers.get_content_type() == "application/json"
            return answer.status, json.loads(text) if is_json else text.decode()
        finally:
            connection.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def served(folder: Path, policy: str = "fifo") -> Iterator[Served]:
    made = Served(folder, policy)
    made.open()
    try:
        yield made
    finally:
        made.close()
