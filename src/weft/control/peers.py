"""Who may speak to the daemon: its own user, and root. The socket's mode says so too; this holds if that is changed."""

from __future__ import annotations

import logging
import os
import socket
import struct

PEER = struct.Struct("iII")

log = logging.getLogger(__name__)


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
