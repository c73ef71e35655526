"""Input and a terminal for a task: what a shepherd does for attached clients while it waits for the command's end.

A client connects to a socket of packets: b"i" and input, b"e" for the end of input, b"w" and a window's size. Several
may be connected: the input is what all of them send, in the order in which it comes. Without a terminal, the input ends
when the last client goes away.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import termios
from contextlib import suppress
from typing import Any

from weft.node.shepherd.supervise import open_log

PACKET_BYTES = 1 << 17
PIECE_BYTES = 1 << 16
MOST_CLIENTS = 8
"""Further ones wait until one has gone."""
END_OF_INPUT = b"\x04"  # as typed at a terminal


def feed(pid: int, input_fd: int, launch: dict[str, Any]) -> int:
    """The wait status of the command, once it has ended."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # it must be taken to be written there
    os.set_blocking(input_fd, False)
    feeder = _Feeder(input_fd, launch)
    while True:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == pid:
                    feeder.close()
                    return ended[1]
        feeder.turn(reading)


def copy_rest(master: int, log: str) -> None:
    """What is still in a terminal that no process has open any more."""
    output = open_log(log)
    with suppress(OSError):
        while piece := os.read(master, PIECE_BYTES):
            _append(output, piece)


class _Feeder:
    def __init__(self, sink: int, launch: dict[str, Any]) -> None:
        self._sink = sink  # -1 once the input has ended
        self._has_terminal = bool(launch["tty"])
        self._output = open_log(launch["log"]) if self._has_terminal else -1
        self._pending = b""
        self._is_ending = False
        self._clients: dict[int, socket.socket] = {}
        self._path = launch["socket"]
        self._listener = _listen(self._path)

    def turn(self, woken: int) -> None:
        """Wait for something to do, and do it."""
        poll = select.poll()
        poll.register(woken, select.POLLIN)
        if len(self._clients) < MOST_CLIENTS:
            poll.register(self._listener, select.POLLIN)
        for client in () if self._pending else self._clients.values():  # else the command is slower than the typist
            poll.register(client, select.POLLIN)
        flags = (select.POLLIN if self._has_terminal else 0) | (select.POLLOUT if self._pending else 0)
        if self._sink >= 0 and flags:
            poll.register(self._sink, flags)
        for fd, event in poll.poll():
            if fd == woken:
                with suppress(BlockingIOError):
                    os.read(woken, PIECE_BYTES)
            elif fd == self._listener.fileno():
                client, _ = self._listener.accept()
                self._clients[client.fileno()] = client
            elif fd == self._sink:
                self._serve_sink(event)
            elif fd in self._clients:
                self._take(self._clients[fd])

    def _serve_sink(self, event: int) -> None:
        if event & select.POLLIN:
            with suppress(OSError):
                _append(self._output, os.read(self._sink, PIECE_BYTES))
        elif event & select.POLLHUP and self._has_terminal:
            self._sink = -1  # no process has the terminal open any more, and none ever will
        if event & (select.POLLOUT | select.POLLERR):
            self._push()

    def _take(self, client: socket.socket) -> None:
        try:
            packet = client.recv(PACKET_BYTES)
        except OSError:
            packet = b""
        kind, rest = packet[:1], packet[1:]
        if not kind:
            del self._clients[client.fileno()]
            client.close()
        if kind == b"i":
            self._pending += rest
        elif kind == b"w" and self._has_terminal and len(rest) == 4:
            with suppress(OSError):
                fcntl.ioctl(self._sink, termios.TIOCSWINSZ, rest + bytes(4))
        elif kind == b"e" and self._has_terminal:
            self._pending += END_OF_INPUT
        elif not self._has_terminal and (kind == b"e" or not (kind or self._clients)):
            self._is_ending = True
        self._push()

    def _push(self) -> None:
        """Hand over as much input as is taken now."""
        if self._sink < 0:
            self._pending = b""
        try:
            while self._pending:
                self._pending = self._pending[os.write(self._sink, self._pending) :]
        except BlockingIOError:
            return
        except OSError:  # its reader is gone
            self._pending, self._is_ending = b"", not self._has_terminal
        if self._is_ending and self._sink >= 0:
            os.close(self._sink)
            self._sink = -1

    def close(self) -> None:
        self._listener.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)  # noqa: PTH108
        for client in self._clients.values():
            client.close()


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with suppress(FileNotFoundError):
        os.unlink(path)  # noqa: PTH108
    listener.bind(path)
    listener.listen(4)
    return listener


def _append(output: int, piece: bytes) -> None:
    """On a full disk output is dropped; the job goes on."""
    with suppress(OSError):
        while piece:
            piece = piece[os.write(output, piece) :]
