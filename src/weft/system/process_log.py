"""The log of a process: its level, its format, and the rotation of the file that it goes to.

Levels: debug is for the developers of weft; info says what happens, in order; a warning is about something that weft
works around by itself; an error needs the attention of the user.
"""

from __future__ import annotations

import logging
import os
from itertools import pairwise
from pathlib import Path

from weft.core.errors import InputError
from weft.system.files import open_regular

LEVELS = ("debug", "info", "warning", "error")
DEFAULT = "info"
VARIABLE = "WEFT_LOG"
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LARGEST_BYTES = 16 << 20
KEPT = 3
"""Older files beside the current one: daemon.log.1 is the newest of them."""


def configure_log(file: Path, level: str | None = None) -> None:
    """Log to standard error, once per process. Where that is `file`, rotate it.

    `level` goes before WEFT_LOG. It is put there for the processes that this one starts.
    """
    name = (level or os.environ.get(VARIABLE) or DEFAULT).strip().lower()
    if name not in LEVELS:
        raise InputError(f'there is no log level "{name}"', f"{', '.join(LEVELS)}: {VARIABLE}={DEFAULT}")
    if level:
        os.environ[VARIABLE] = name
    handler = RotatingHandler(file)
    logging.basicConfig(level=name.upper(), format=FORMAT, handlers=[handler])


class RotatingHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Moves the file behind standard output and error: tracebacks and the web server's lines go there as well."""

    def __init__(self, file: Path, largest_bytes: int = LARGEST_BYTES, kept: int = KEPT) -> None:
        super().__init__()
        self._file = file
        self._largest_bytes = largest_bytes
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            if self._is_full():
                self._rotate()
        except OSError:  # a full disk, or the file was removed: what is logged still has its descriptor
            pass

    def _is_full(self) -> bool:
        stream = os.fstat(2)
        if stream.st_size <= self._largest_bytes:
            return False
        here = self._file.lstat()
        return (here.st_dev, here.st_ino) == (stream.st_dev, stream.st_ino)

    def _rotate(self) -> None:
        older = [self._file, *(self._file.with_name(f"{self._file.name}.{n}") for n in range(1, self._kept + 1))]
        for newer, place in reversed(list(pairwise(older))):
            if newer.exists():
                newer.replace(place)
        opened = open_regular(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.dup2(opened, 1)
            os.dup2(opened, 2)
        finally:
            os.close(opened)
