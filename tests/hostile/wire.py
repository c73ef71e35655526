"""Bytes over a Unix socket: requests that no client library would send."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

ANSWER_S = 30.0


def connected(path: Path, timeout_s: float = ANSWER_S) -> socket.socket:
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(path))  # waits while the queue of connections is full
    line.settimeout(timeout_s)
    return line


def exchanged(path: Path, *pieces: bytes, half_closes: bool = False, timeout_s: float = ANSWER_S) -> bytes:
    """All that comes back for these bytes, until the other end hangs up or says nothing more for a while."""
    answer = b""
    with connected(path, timeout_s) as line:
        with suppress(ConnectionError):
            for piece in pieces:
                line.sendall(piece)
            if half_closes:
                line.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError, TimeoutError):
            while piece := line.recv(1 << 16):
                answer += piece
    return answer


def request(method: str, target: str, body: bytes = b"", headers: Sequence[str] = ()) -> bytes:
    head = [f"{method} {target} HTTP/1.1", "Host: weft", "Connection: close", *headers]
    if body and not any(header.lower().startswith(("content-length", "transfer-encoding")) for header in headers):
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def answered(path: Path, sent: bytes, **how: Any) -> tuple[int, Any]:
    """Status and JSON of the answer; 0 if there is none."""
    head, _, body = exchanged(path, sent, **how).partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1]) if head.startswith(b"HTTP/1.1 ") else 0
    with suppress(ValueError):
        return status, json.loads(body)
    return status, body
