"""Reading beside the writer: a short look while no instant is under way, everything else while the writer goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

RENDERERS = 4

P = ParamSpec("P")
T = TypeVar("T")


class ReaderPool:
    """In threads of its own, so that the loop can answer others meanwhile. `settled` is held during an instant."""

    def __init__(self, settled: asyncio.Condition) -> None:
        self._settled = settled
        self._looking = ThreadPoolExecutor(1, "look")
        self._rendering = ThreadPoolExecutor(RENDERERS, "render")

    async def look(self, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `read` finds between two instants: all of it on disk, none of it half-done. The writer waits for it."""

        async def look() -> T:
            async with self._settled:
                return await _run(self._looking, partial(read, *arguments, **named))

        # Who asked may give up; the look still ends before the writer goes on.
        return await asyncio.shield(asyncio.create_task(look()))

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What needs nothing of the writer's: making JSON of what was seen, asking the database."""
        return await _run(self._rendering, partial(work, *arguments, **named))

    def close(self) -> None:
        self._looking.shutdown()
        self._rendering.shutdown()


async def _run(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)
