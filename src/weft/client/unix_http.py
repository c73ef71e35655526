"""HTTP/1.1 over a Unix socket, as much of it as a client of weft needs.

http.client would do, but brings the whole of email and ssl: more to load than all else that `weft submit` does.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from io import BufferedReader

LONGEST_LINE = 65536
ENTER_AGAIN_S = 0.01


class Connection:
    """One connection, kept for the next request. It raises what sockets raise, TimeoutError included.

    `path` may be a function that is asked each time a connection is made.
    """

    def __init__(self, path: str | Callable[[], str]) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._reader: BufferedReader | None = None
        self.again_in_s: float | None = None
        """The server did not do what it was last asked, and says when to ask again."""

    def request(self, method: str, target: str, sent: bytes | None, timeout_s: float) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self._socket is not None and self._is_closed_there():
            self.close()
        try:
            if self._socket is None:
                self._connect(timeout_s)
            assert self._socket is not None
            self._socket.settimeout(timeout_s)
            status, headers, body = self._exchanged(_written(method, target, sent))
        except (OSError, ValueError):
            self.close()
            raise
        if headers.get("connection", "").lower() == "close":
            self.close()
        again_in = headers.get("retry-after", "")
        self.again_in_s = float(again_in) if again_in.isdecimal() else None
        return status, body

    def _exchanged(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        """The answer, also to a request of which the server did not read all: it may say why before it hangs up."""
        assert self._socket is not None
        assert self._reader is not None
        try:
            self._socket.sendall(request)
        except ConnectionError as unsent:
            try:
                return _read(self._reader)
            except (OSError, ValueError):
                raise unsent from None
        return _read(self._reader)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        if self._socket is not None:
            self._socket.close()
        self._socket = self._reader = None

    def __del__(self) -> None:
        self.close()  # a client used in one line and dropped is no reason for a warning

    def _connect(self, timeout_s: float) -> None:
        path = self._path if isinstance(self._path, str) else self._path()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout_s)
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                self._socket.connect(path)
                break
            except BlockingIOError:  # the server's accept queue is full
                if time.monotonic() > deadline_s:
                    raise TimeoutError("timed out connecting: the daemon's accept queue is full") from None
                time.sleep(ENTER_AGAIN_S)
        self._reader = self._socket.makefile("rb")

    def _is_closed_there(self) -> bool:
        """Whether the server gave up the idle connection: then the request has not been seen, and a new one is safe."""
        assert self._socket is not None
        self._socket.setblocking(False)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            pass
        return True  # it ended; or something came unasked, which no answer may begin with


def _written(method: str, target: str, body: bytes | None) -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: weft\r\nAccept: application/json\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode("ascii") + b"\r\n" + (body or b"")


def _read(reader: BufferedReader) -> tuple[int, dict[str, str], bytes]:
    _, status, *_ = _line(reader).split(" ", 2)
    headers: dict[str, str] = {}
    while line := _line(reader):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _chunks(reader)
    elif "content-length" in headers:
        body = _exactly(reader, int(headers["content-length"]))
    else:
        body = b"" if status == "204" else reader.read()
    return int(status), headers, body


def _chunks(reader: BufferedReader) -> bytes:
    body = bytearray()
    while size := int(_line(reader).partition(";")[0], 16):
        body += _exactly(reader, size)
        _line(reader)
    while _line(reader):
        pass  # what trails behind the last chunk
    return bytes(body)


def _line(reader: BufferedReader) -> str:
    line = reader.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise ConnectionResetError("the answer breaks off")
    return line.rstrip(b"\r\n").decode("latin-1")


def _exactly(reader: BufferedReader, size: int) -> bytes:
    body = reader.read(size)
    if len(body) < size:
        raise ConnectionResetError("the answer breaks off")
    return body
