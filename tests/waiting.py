"""Waiting for what a process will do, and what /proc says of it. A deadline, never a guess at how long it takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 600.0
"""The last resort of every test that waits: what it waits for is an event, and it comes on a machine that is busy with
other things as well. No test has a deadline of its own, unless the deadline is what it tests."""
LOOK_EVERY_S = 0.002


def wait_until(is_so: Callable[[], bool], what: str | Callable[[], str] = "it is so") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s until {what if isinstance(what, str) else what()}"
        time.sleep(LOOK_EVERY_S)


def state_of(pid: int) -> str:
    """One letter: R runs, S sleeps, T is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
