"""Python's collector of reference cycles, kept off what lives long.

A full pass looks at every object there is: with 100,000 queued jobs that stops the daemon for half a second, and while
they are loaded it comes again and again. Live jobs are in no cycles, so they are taken out of its sight.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

STEP = 2_000
"""New jobs after which what lives is taken out of sight again. Whatever else lives then is too: that is little."""


@contextmanager
def long_lived() -> Iterator[None]:
    """What is made here stays, most of it for long."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


class LiveJobs:
    """Told after each instant how many jobs there are."""

    def __init__(self, count: int) -> None:
        self._frozen = count

    def now(self, count: int) -> None:
        if count >= self._frozen + STEP:
            gc.freeze()
            self._frozen = count
        self._frozen = min(self._frozen, count)
