"""A listening socket of the daemon. It survives a lack of descriptors and a removed path.

Only the daemon's own user and root may connect: the mode of the socket says so, and each peer is checked besides.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
WAIT_S = 0.5
LOOK_EVERY_S = 2.0

log = logging.getLogger(__name__)
PEER = struct.Struct("iII")


class Listener:
    """Accepts one connection at a time, and never more than there are descriptors for.

    asyncio's own servers accept all that wait before any of them is looked at, and on 3.11 retry and log once for each
    place in the backlog when descriptors run out.
    """

    def __init__(self, path: Path, listen: Callable[[Path], socket.socket]) -> None:
        self._path = path
        self._listen = listen
        self._socket: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._spare = -1
        self.is_exhausted = False
        """The last connection could not be accepted for want of descriptors or memory."""

    def open(self) -> None:
        """Listen, unless we do. Raises what binding a socket raises."""
        if self._socket is None:
            self._socket = self._listen(self._path)
            self._identity = _identity(self._path)
        if self._spare < 0:
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    async def run(self, admit: Callable[[socket.socket], Awaitable[None]]) -> None:
        """Hand over every connection of our own user. `admit` owns what it is given."""
        while True:
            self.open()
            if not await self._is_called():
                self._look()
                continue
            connection = self._accepted()
            if connection is not None and is_own(connection):
                await _handed_over(admit, connection)
            elif connection is not None:
                connection.close()
            await asyncio.sleep(WAIT_S if self.is_exhausted else 0)  # a flood leaves time for everything else

    async def _is_called(self) -> bool:
        """Whether there is a connection to accept; False after a while without one."""
        assert self._socket is not None
        loop, called = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._socket, called.set)
        try:
            async with asyncio.timeout(LOOK_EVERY_S):
                await called.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self._socket)
        return True

    def _accepted(self) -> socket.socket | None:
        """The next connection; None if there are no descriptors for it. Then it is closed, so that it does not wait."""
        assert self._socket is not None
        try:
            connection, _ = self._socket.accept()
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EINTR, errno.ECONNABORTED):
                return None
            if error.errno not in EXHAUSTED:
                raise
            if not self.is_exhausted:
                log.warning("connections to %s are refused: %s", self._path.name, error.strerror)
            self.is_exhausted = True
            self._turn_one_away()
            return None
        self.is_exhausted = False
        connection.setblocking(False)
        return connection

    def _turn_one_away(self) -> None:
        assert self._socket is not None
        os.close(self._spare)
        self._spare = -1
        with suppress(OSError):  # it waits for the next time
            self._socket.accept()[0].close()
        with suppress(OSError):  # opened again as soon as that is possible
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _look(self) -> None:
        """Listen anew where our socket was removed, or something else is in its place: a log-out may empty the folders
        in memory (RemoveIPC)."""
        if _identity(self._path) != self._identity:
            log.warning("%s is gone; listening anew", self._path)
            self.close()

    def warnings(self) -> list[str]:
        refused = f"no connection to {self._path.name} can be accepted: too many files are open, or no memory is left"
        return [refused] if self.is_exhausted else []

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._spare >= 0:
            os.close(self._spare)
            self._spare = -1


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


async def _handed_over(admit: Callable[[socket.socket], Awaitable[None]], connection: socket.socket) -> None:
    """What is wrong with one connection ends that one alone."""
    try:
        await admit(connection)
    except OSError as error:
        log.warning("a connection could not be served: %s", error)
        connection.close()


def is_own(connection: socket.socket) -> bool:
    pid, uid = peer_of(connection)
    if uid in (os.getuid(), 0):
        return True
    log.warning("process %d of user %d was turned away", pid, uid)
    return False


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a Unix socket, when it connected."""
    pid, uid, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    return pid, uid
