"""The one writer loop: everything that arrived meanwhile is one instant, on disk before anything is answered."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

from weft.control.clock import Clock
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import Input, InstantOutcome, Order, Tick
from weft.control.loop.inventory import computing
from weft.control.loop.job_state import JobState
from weft.control.store.log_store import Batch, LogStore, StoreError
from weft.core.errors import WeftError
from weft.core.snapshot import SnapshotTexts
from weft.runtime.failpoints import reach

FAIL_POINTS = ("control-decided", "control-answered")

DAY_S = 86_400.0
RETRY_S = 1.0
DROP_EVERY_S = 3_600.0
"""Between two clean-ups of rows older than `log_days`: each reads much of the log."""
MOST_AT_ONCE = 512
"""Inputs of one instant; more wait for the next, so that one answer does not wait for all the work there is."""
STEP = 2_000
"""New jobs after which live objects are frozen again. Other objects are frozen along: they are few."""

P = ParamSpec("P")
T = TypeVar("T")
Waiting = list[tuple[Input, asyncio.Future[Any] | None]]

log = logging.getLogger(__name__)


class LeavingError(WeftError):
    """The daemon is stopping; whether the request took effect is seen after the next start."""

    def __init__(self) -> None:
        super().__init__("weft is going down", "weft up starts it again")


class RejectedError(WeftError):
    """Handling this input failed unexpectedly; it has had no effect."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"it could not be handled: {type(error).__name__}: {error}"[:500], "see daemon.log")


class Writer:
    def __init__(
        self,
        store: LogStore,
        clock: Clock,
        load: Callable[[], ControlState],
        send: Callable[[Sequence[Order]], None],
        log_days: float,
        snapshot_rows: int,
    ) -> None:
        self._load = load
        self.control = self._loaded()
        self.counts = Counts(store, self.control)
        self.clock = clock
        self.trouble = ""
        """Why nothing can be written at present."""
        self.changed = asyncio.Condition()
        """Held from the start of an instant until it is on disk: a reader that holds it sees nothing else."""
        self._store = store
        self._send = send
        self._snapshot_rows = snapshot_rows
        self._log_days = log_days
        self._inputs: asyncio.Queue[tuple[Input, asyncio.Future[Any] | None]] = asyncio.Queue()
        self._since_snapshot = store.rows_since_snapshot()
        self._is_over = False
        self._snapshots = SnapshotTexts()
        self._dropped_at = -math.inf
        self._jobs = FreezeAfterGrowth(len(self.control.records))
        self._thread: ThreadPoolExecutor | None = None
        """Decides and writes, while the event loop answers requests."""

    async def ask(self, asked: Input) -> Any:
        """Handle an input; its answer, once that is on disk. Errors are raised."""
        if self._is_over:
            raise LeavingError
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._inputs.put_nowait((asked, answer))
        return await answer

    async def run(self) -> None:
        """Run for ever. Whatever ends it, every waiting request is answered."""
        waiting: Waiting = []
        self._thread = ThreadPoolExecutor(1, "writer")
        try:
            if self._is_over:  # started again
                self._is_over = False
                async with self.changed:
                    await self._fold(LeavingError(), [])
            while True:
                waiting = await self._gather()
                await self._handle(waiting)
        finally:
            self._is_over = True
            self._thread.shutdown()
            self._thread = None
            while not self._inputs.empty():
                waiting.append(self._inputs.get_nowait())
            for _, future in waiting:
                _give(future, LeavingError())

    async def _gather(self) -> Waiting:
        """All inputs that wait, or a tick if a time is due first."""
        due_in_s = self.control.next_time(self.clock.peek()) - self.clock.peek()
        timeout_s = None if due_in_s == math.inf else max(0.0, due_in_s)
        try:
            waiting = [await asyncio.wait_for(self._inputs.get(), timeout_s)]
        except TimeoutError:
            return [(Tick(), None)]
        while not self._inputs.empty() and len(waiting) < MOST_AT_ONCE:
            waiting.append(self._inputs.get_nowait())
        return waiting

    async def _handle(self, waiting: Waiting) -> None:
        """Handle these as one instant, or, if that fails unexpectedly, one by one, so that only the bad one fails."""
        async with self.changed:
            failure = await self._attempted(waiting)
            if failure is not None:
                await self._fold(failure, waiting)
            self.changed.notify_all()
        if isinstance(failure, StoreError):
            self._inputs.put_nowait((Tick(), None))  # the policy's wake-up time was lost: ask it again
            await asyncio.sleep(RETRY_S)  # clients that retry should find some room on the disk
        elif failure is not None:
            if len(waiting) > 1:
                for each in waiting:
                    await self._handle([each])
            else:
                await self._reject(*waiting[0], failure)

    async def _attempted(self, waiting: Waiting) -> Exception | None:
        """The error if the instant had no effect; None if it is on disk. Its consequences are not retried."""
        try:
            now = self.clock.now()
            outcome, seq = await self._aside(self._settle, [asked for asked, _ in waiting], now)
        except Exception as error:  # noqa: BLE001 - whatever it is, the state is on disk as it was
            return error
        if seq is None:
            for _, future in waiting:
                _give(future, None)
        else:
            self.trouble = ""
            await self._conclude(waiting, outcome, seq, now)
        return None

    async def _conclude(self, waiting: Waiting, outcome: InstantOutcome, seq: int, now: float) -> None:
        """Send, count and answer, once an instant is on disk. No failure here may undo it."""
        try:
            self._send(outcome.orders)
        except Exception:
            log.exception("orders could not be sent")
        self.counts.add(outcome)
        self.counts.publish(self.control)
        self._jobs.now(len(self.control.records))
        for (_, future), answer in zip(waiting, outcome.answers, strict=True):
            _give(future, answer)
        reach("control-answered")
        self._since_snapshot += len(outcome.facts)
        if self._since_snapshot >= self._snapshot_rows:
            await self.snapshot(seq, now)

    async def _aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run in the writer's thread, which owns the control state while `changed` is held here."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments, **named))

    def _settle(self, inputs: Sequence[Input], now: float) -> tuple[InstantOutcome, int | None]:
        """Decide, and make it durable; the last row of it, or None if there was nothing to write."""
        outcome = self.control.handle(inputs, now)
        if outcome.is_quiet:
            return outcome, None
        reach("control-decided")
        return outcome, self._store.commit(self._batch(outcome, now))

    async def _reject(self, asked: Input, future: asyncio.Future[Any] | None, error: Exception) -> None:
        self.trouble = f"{type(asked).__name__} failed: {type(error).__name__}: {error}"[:300]
        _give(future, RejectedError(error))
        if future is None:  # a due time, which would be due again at once
            await asyncio.sleep(RETRY_S)

    def _batch(self, outcome: InstantOutcome, now: float) -> Batch:
        return Batch(
            self.clock.mark(now),
            outcome.facts,
            outcome.environments,
            list(outcome.rows.values()),
            list(outcome.attempts.values()),
            outcome.requests,
            outcome.settings,
        )

    async def snapshot(self, seq: int, now: float) -> None:
        """Between two instants, so that it is the ledger after row `seq`."""
        try:
            await self._aside(self._put_snapshot, seq, now)
        except StoreError as error:
            log.warning("no snapshot: %s", error)
        self._since_snapshot = 0

    def _put_snapshot(self, seq: int, now: float) -> None:
        taken = self._snapshots.text(self.control.scheduler.ledger)
        keep_s = self._log_days * DAY_S
        is_time_to_drop = now >= self._dropped_at + min(keep_s, DROP_EVERY_S)
        self._store.put_snapshot(seq, now, taken, now - keep_s if is_time_to_drop else None)
        if is_time_to_drop:
            self._dropped_at = now
            self.control.live_jobs.environments = {row["digest"]: row["id"] for row in self._store.all("environments")}

    async def _fold(self, failure: Exception, waiting: Waiting) -> None:
        """Go back to what is on disk: what could not be written has not happened, and waiting requests get the error.

        As long as the log cannot be read, nothing can be decided, nor looked at.
        """
        if isinstance(failure, StoreError):
            log.error("%s", failure)
        elif waiting:
            log.error("an instant of %d inputs failed; folding the log anew", len(waiting), exc_info=failure)
        while True:
            try:
                self.control = await self._aside(self._loaded)
                unreadable = None
            except Exception as error:
                log.exception("the log cannot be read")
                unreadable = f"the log cannot be read: {error}"
            if isinstance(failure, StoreError):
                self.trouble = failure.message
                for _, future in waiting:
                    _give(future, failure)
            if unreadable is None:
                return
            self.trouble = unreadable
            await asyncio.sleep(RETRY_S)

    def _loaded(self) -> ControlState:
        with long_lived():
            return self._load()


def _give(future: asyncio.Future[Any] | None, answer: Any) -> None:
    if future is None or future.done():
        return
    if isinstance(answer, WeftError):
        future.set_exception(answer)
    else:
        future.set_result(answer)


class Counts:
    """As of the last instant on disk. What is published is never changed, so that it may be read at any time."""

    def __init__(self, store: LogStore, control: ControlState) -> None:
        self._ended = Counter({row["state"]: row["jobs"] for row in store.all("counts")})
        self.ended: Mapping[str, int] = {}
        self.all: Mapping[str, int] = {}
        self.publish(control)

    def add(self, outcome: InstantOutcome) -> None:
        """Count jobs that ended; each ends once."""
        self._ended.update(str(row["state"]) for row in outcome.rows.values() if row["finished_at"] is not None)

    def publish(self, control: ControlState) -> None:
        running = sum(1 for _ in computing(control.scheduler.ledger))
        paused = sum(not control.job(job_id).is_computing for job_id in control.live_jobs.alive)
        live = {
            JobState.PENDING: len(control.records) - running - paused,
            JobState.RUNNING: running,
            JobState.PAUSED: paused,
        }
        self.ended = dict(self._ended)
        self.all = {**self.ended, **{str(state): count for state, count in live.items() if count}}


@contextmanager
def long_lived() -> Iterator[None]:
    """For making many long-lived objects: they are exempted from garbage collection."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


class FreezeAfterGrowth:
    """Freezes live objects as the number of jobs grows, so that full collections do not stop the daemon."""

    def __init__(self, count: int) -> None:
        self._frozen = count

    def now(self, count: int) -> None:
        if count >= self._frozen + STEP:
            gc.freeze()
            self._frozen = count
        self._frozen = min(self._frozen, count)
