"""The process that holds a sandbox's namespaces: sandbox.py starts it, maps its ids, and learns the pid of their init.

python namespaces.py SOCKET_FD CLONE_FLAGS
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG = 1


def hold(fd: int, flags: int) -> None:
    """What the holder does: enter the namespaces, start their first process, and wait for its end."""
    libc = ctypes.CDLL(None, use_errno=True)
    line = socket.socket(fileno=fd)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if libc.unshare(flags) != 0:
        return
    line.send(b"u")
    if line.recv(1) != b"m":
        return
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if _has_mounted(libc):
            os.write(writing, b"m")
            line.close()
            _reap()
        os._exit(1)
    os.close(writing)
    if os.read(reading, 1) == b"m":
        line.send(b"%d" % pid)
    line.close()
    os.waitpid(pid, 0)


def _has_mounted(libc: ctypes.CDLL) -> bool:
    return (
        libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        and libc.mount(b"proc", b"/proc", b"proc", 0, None) == 0
        and libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777,size=2g") == 0
    )


def _reap() -> None:
    """The first process of the namespace: orphans become its children, and the kernel reaps them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        signal.pause()


if __name__ == "__main__":
    hold(int(sys.argv[1]), int(sys.argv[2]))
