"""Starting a command as without weft: in its cgroup, with its own signals and limits; and why it could not be started.

A shepherd loads this, so it loads next to nothing.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
from _signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal  # type: ignore[import-not-found]  # `signal` loads enum: 6 ms

CLONE3 = 435  # the same number on every architecture
CLONE_INTO_CGROUP = 0x200000000
SIGCHLD = 17
WORDS = 11  # of the kernel's struct clone_args, the last of them the cgroup

NOT_FOUND, NOT_EXECUTABLE = 127, 126
SOFT_LIMIT = "WEFT_SOFT_NOFILE"
"""The limit of open files that weft was started with, in the environment of its own processes."""


def fork_into(cgroup: str) -> tuple[int, bool]:
    """As os.fork, and whether the child is in the cgroup; without a name, or on a kernel before 5.7, it is not.

    To move a process there afterwards makes the kernel wait for all others, 2 to 10 ms; a clone does not.
    """
    if not cgroup:
        return os.fork(), False
    try:
        return _cloned_into(cgroup), True
    except OSError:  # not offered, or forbidden in a sandbox
        return os.fork(), False


def enter(cgroup: str) -> None:
    """Move this process into the cgroup."""
    fd = os.open(cgroup + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"0")
    finally:
        os.close(fd)


def _cloned_into(cgroup: str) -> int:
    fd = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        words = (ctypes.c_uint64 * WORDS)(CLONE_INTO_CGROUP)
        words[4], words[WORDS - 1] = SIGCHLD, fd
        libc = ctypes.PyDLL(None, use_errno=True)  # it keeps the interpreter's lock, for the child to have it
        pid = libc.syscall(ctypes.c_long(CLONE3), words, ctypes.c_size_t(ctypes.sizeof(words)))
        if pid < 0:
            raise OSError(ctypes.get_errno(), "clone3")
        return int(pid)
    finally:
        os.close(fd)


def signals_as_bare() -> None:
    """Python ignores two signals for itself."""
    for ignored in (SIGPIPE, SIGXFSZ):
        signal(ignored, SIG_DFL)


def descriptors_as_bare() -> None:
    """Weft raises the limit of open files for itself alone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    said = os.environ.get(SOFT_LIMIT, "")
    if said.isdecimal() and int(said) < soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(said), hard))


def limit_memory(limit_bytes: int) -> None:
    """Bound the private memory of each process from here on. A lower bound that is there already stays."""
    if limit_bytes:
        soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (_lower(limit_bytes, soft), _lower(limit_bytes, hard)))


def _lower(limit_bytes: int, present: int) -> int:
    return limit_bytes if present == resource.RLIM_INFINITY else min(limit_bytes, present)


def why_not_started(name: str, number: int, verb: str, path: str | None = None) -> tuple[str, str, int]:
    """Why a command could not be started, a hint, and what a shell would answer. `verb` is how it was asked for.

    `path` is where it was looked for, if not on our own PATH.
    """
    from shutil import which  # only needed here, and takes its time

    script = f"to run a script: weft {verb} -- python {name}" if name.endswith(".py") else ""
    if number == errno.ENOENT and not which(name, path=path):
        quoted = "write it without quotes around the whole" if " " in name else ""
        hint = quoted or script or "is it installed, and its folder on PATH?"
        return f'there is no command "{name}"', hint, NOT_FOUND
    if number == errno.ENOENT:  # the file is there
        hint = "its first line has to name a program, as in #!/usr/bin/env python3"
        return f"{name} cannot be run: what its first line names is not there", hint, NOT_EXECUTABLE
    if os.path.isdir(name):  # noqa: PTH112 - pathlib takes longer to load than a shepherd may take to start
        return f"{name} cannot be run: it is a folder", "name a program in it", NOT_EXECUTABLE
    hints = {
        errno.ENOEXEC: script or "a script begins with a line such as #!/bin/sh",
        errno.EACCES: script or f"chmod +x {name}, if it is a program",
    }
    return f"{name} cannot be run: {os.strerror(number).lower()}", hints.get(number, ""), NOT_EXECUTABLE
