"""Who may speak to the daemon: its own user, and root. The socket's mode says so too; this holds if that is changed."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

PEER = struct.Struct("iII")

log = logging.getLogger(__name__)


class OwnConnections(H11Protocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        connection = transport.get_extra_info("socket")
        if connection.family == socket.AF_UNIX:
            pid, uid, _ = PEER.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
            if uid not in (os.getuid(), 0):
                log.warning("process %d of user %d was turned away", pid, uid)
                transport.abort()
        super().connection_made(transport)
