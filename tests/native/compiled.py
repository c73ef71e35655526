"""C programs of the native library's tests, compiled once a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
FLAGS = ("-std=c11", "-O2", "-g", "-D_GNU_SOURCE", "-pthread")
WARNINGS = ("-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wshadow")

_folders: list[Path] = []


@contextmanager
def folder_for_programs() -> Iterator[None]:
    """For the session: what is built in it goes with it."""
    with tempfile.TemporaryDirectory(prefix="weft-native-") as folder:
        _folders.append(Path(folder))
        yield
        _folders.pop()


def compiler() -> str:
    found = shutil.which(os.environ.get("CC", "gcc"))
    if found is None:
        pytest.skip("no C compiler")
    return found


def build(name: str, *sources: str, flags: tuple[str, ...] = ()) -> Path:
    """The program `name`, made of sources in native/ (`"arena.c", "tests/arena_test.c"`). Without a compiler, skip."""
    return _build(_folders[-1], name, sources, flags)


@cache
def _build(folder: Path, name: str, sources: tuple[str, ...], flags: tuple[str, ...]) -> Path:
    program = Path(tempfile.mkdtemp(dir=folder)) / name
    command = [compiler(), *FLAGS, *WARNINGS, f"-I{NATIVE}", *flags, "-o", program]
    done = subprocess.run(
        [*command, *(NATIVE / source for source in sources), "-ldl"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return program
