"""Lasting tasks of a process: one that ends or fails is reported and started again, and the process goes on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 30.0
STEADY_S = 60.0
"""A task that has run for so long after a failure is well again: it is not warned of, and its back-off begins anew."""

log = logging.getLogger(__name__)


@dataclass
class _Trouble:
    why: str
    times: int
    began_s: float
    """When it was last started; before that it waited."""

    def is_over(self, now_s: float) -> bool:
        return now_s - self.began_s > STEADY_S


class Supervisor:
    """Of a process. `keep` never returns by itself, so whatever it is given lasts until it is cancelled."""

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> asyncio.Task[None]:
        return asyncio.create_task(self.keep(name, work), name=name)

    async def keep(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await work()
                self._note(name, "it ended", None)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                self._note(name, "it was cancelled from within", error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, the process goes on without it
                self._note(name, f"{type(error).__name__}: {error}", error)
            await asyncio.sleep(self._wait_s(name))
            self._troubles[name].began_s = time.monotonic()

    def warnings(self) -> list[str]:
        now_s = time.monotonic()
        return [
            f"the task {name} failed and was started again, {trouble.times} times now: {trouble.why}"
            for name, trouble in self._troubles.items()
            if not trouble.is_over(now_s)
        ]

    def _note(self, name: str, why: str, error: BaseException | None) -> None:
        log.error("the task %s failed, and is started again: %s", name, why, exc_info=error)
        before = self._troubles.get(name)
        times = 0 if before is None or before.is_over(time.monotonic()) else before.times
        self._troubles[name] = _Trouble(why[:300], times + 1, time.monotonic())

    def _wait_s(self, name: str) -> float:
        return float(min(FIRST_WAIT_S * 2 ** min(self._troubles[name].times - 1, 20), LONGEST_WAIT_S))
