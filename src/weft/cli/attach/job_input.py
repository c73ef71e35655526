"""What is typed or piped into `weft run`, handed on to the job: packets to its first task's shepherd."""

from __future__ import annotations

import os
import socket
import struct
import termios
import tty
from contextlib import suppress

from weft.cli.render.tables import terminal_size
from weft.client import Job
from weft.system.home import Home

STDIN = 0
AT_ONCE_BYTES = 16384
CONTROL_C = b"\x03"


class JobInput:
    """Reads no more than the job takes: while a packet waits, nothing is read."""

    def __init__(self, home: Home, job_id: str, *, is_terminal: bool) -> None:
        self._home = home
        self._id = job_id
        self._is_terminal = is_terminal
        self._socket: socket.socket | None = None
        self._attempt = 0
        self._packets: list[bytes] = []
        self._has_ended = False
        self._cooked: list[object] | None = None

    @property
    def reads(self) -> list[int]:
        return [STDIN] if self._socket and not self._packets and not self._has_ended else []

    @property
    def writes(self) -> list[int]:
        return [self._socket.fileno()] if self._socket and self._packets else []

    @property
    def is_raw(self) -> bool:
        return self._cooked is not None

    def reach(self, job: Job) -> None:
        """Be connected to the attempt that runs now, if one does."""
        if job["state"] != "RUNNING" or (self._socket and job["attempt"] == self._attempt):
            return
        self._disconnect()
        path = self._home.attach_socket(self._id, job["attempt"], 0)
        reaching = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reaching.setblocking(False)
        try:
            reaching.connect(str(path))
        except OSError:  # not there yet, or gone already: there is a next time
            reaching.close()
            return
        self._socket, self._attempt = reaching, job["attempt"]
        if self._has_ended:
            self._packets.append(b"e")
        self.resized()
        self.make_raw()
        self.send()

    def read(self) -> bool:
        """Take what is there; whether a Ctrl-C was typed, which is ours and not the job's."""
        try:
            data = os.read(STDIN, AT_ONCE_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # the terminal is gone
        if not data:
            self._has_ended = True
            self._packets.append(b"e")
        before, control_c, _ = data.partition(CONTROL_C) if self.is_raw else (data, b"", b"")
        if before:
            self._packets.append(b"i" + before)
        self.send()
        return bool(control_c)

    def type(self, data: bytes) -> None:
        self._packets.append(b"i" + data)
        self.send()

    def resized(self) -> None:
        if self._is_terminal:
            columns, rows = terminal_size()
            self._packets.append(b"w" + struct.pack("=HH", rows, columns))
            self.send()

    def send(self) -> None:
        while self._socket and self._packets:
            try:
                self._socket.send(self._packets[0])
            except BlockingIOError:
                return
            except OSError:  # this attempt has ended, and with it what it was to read
                self._packets.clear()
                self._disconnect()
                return
            del self._packets[0]

    def make_raw(self) -> None:
        """Every key is the job's, and every byte it prints is: its own terminal has edited the lines already."""
        if self._is_terminal and self._cooked is None:
            self._cooked = termios.tcgetattr(STDIN)
            tty.setraw(STDIN, termios.TCSADRAIN)

    def close(self) -> None:
        self._disconnect()
        if self._cooked is not None:
            with suppress(termios.error):
                termios.tcsetattr(STDIN, termios.TCSADRAIN, self._cooked)  # type: ignore[arg-type]
            self._cooked = None

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
