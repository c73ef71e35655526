"""A daemon that does what a real one cannot be made to do at will: break off, fall silent, answer nonsense."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any

Says = Callable[[str, str, Any], tuple[int, Any] | None]
"""What to answer to a method, a target and a body: a status and JSON, or None to break off without an answer."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StandIn

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = (self.command, self.path, json.loads(body) if body else None)
        self.server.asked.append(asked)
        answer = self.server.says(*asked)
        if answer is None:
            self.close_connection = True
            return
        status, said = answer
        written = said if isinstance(said, bytes) else json.dumps(said).encode()
        self.send_response(status)
        if self.server.is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            halves = [each for each in (written[:3], written[3:]) if each]
            self.wfile.write(b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in halves) + b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(written)))
            self.end_headers()
            self.wfile.write(written)
        self.close_connection = self.server.closes

    do_GET = do_POST = do_PUT = _answer  # noqa: N815 - so named by http.server

    def log_message(self, *_: object) -> None:
        pass

    def address_string(self) -> str:
        return "client"


class StandIn(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, socket: Path, says: Says, *, is_chunked: bool = False, closes: bool = False) -> None:
        socket.unlink(missing_ok=True)
        super().__init__(str(socket), Handler)
        self.says = says
        self.is_chunked = is_chunked
        self.closes = closes
        self.asked: list[tuple[str, str, Any]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        Path(str(self.server_address)).unlink(missing_ok=True)
