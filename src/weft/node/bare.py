"""A command as it would be without weft: its signals, its limits, and what is said if it cannot be started.

A shepherd loads this, so it loads next to nothing.
"""

from __future__ import annotations

import errno
import os
import resource
from _signal import SIG_DFL, SIGPIPE, SIGXFSZ, signal  # type: ignore[import-not-found]  # `signal` loads enum: 6 ms

NOT_FOUND, NOT_EXECUTABLE = 127, 126
SOFT_LIMIT = "WEFT_SOFT_NOFILE"
"""The limit of open files that weft was started with, in the environment of its own processes."""


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
