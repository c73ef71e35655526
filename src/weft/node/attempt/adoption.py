"""Attempts that an earlier coordinator left on this node: found on disk, taken up, or ended where nothing is known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from weft.node.attempt import records
from weft.node.attempt.attempt import Attempt
from weft.node.attempt.context import NodeContext, contained
from weft.node.attempt.order import AttemptOrder, Wanted
from weft.node.attempt.records import AttemptRecord, DamagedRecordError
from weft.node.devices.occupancy import Key
from weft.node.fence import process_tree
from weft.node.handles.children import end_leftover_cgroups, in_thread

UNKNOWN_S = 5.0

log = logging.getLogger(__name__)


class Adoption:
    """`begin` is called with each attempt that is taken up."""

    def __init__(self, context: NodeContext, begin: Callable[[Attempt], None]) -> None:
        self._context = context
        self._begin = begin
        self.unadopted: set[Key] = set()
        """Attempts that could not be taken up yet."""
        self.damaged: dict[Key, str] = {}
        """Attempts whose record cannot be read, and why; they are lost as soon as the daemon asks for them."""

    async def adopt_all(self) -> None:
        """Take up what is on disk, and end what lives without a record."""
        records.remove_leftovers(self._context.home)
        on_disk = records.attempts_on_disk(self._context.home)
        for job, attempt in on_disk:
            try:
                self.adopt(job, attempt)
            except Exception as error:  # noqa: BLE001 - a full disk, say; it is taken up when it is ordered
                log.warning("job %s, attempt %d cannot be adopted yet: %r", job, attempt, error)
                self.unadopted.add((job, attempt))
        await self._end_unknown(on_disk)

    def adopt_further(self, known: Collection[Key]) -> None:
        """Remove what is in memory of forgotten attempts; take up those that have records but are not known."""
        for job, attempt in records.remove_leftovers(self._context.home) - set(known):
            if (job, attempt) not in self.damaged:
                with contained(f"job {job}, attempt {attempt} is not adopted"):
                    self.adopt(job, attempt)

    async def _end_unknown(self, known: Sequence[tuple[str, int]]) -> None:
        """What lives of attempts of which no record tells any more. One that cannot be killed is not waited for."""
        context = self._context
        ending = [in_thread(end_leftover_cgroups, context.fences.left_over(known))]
        ending += [in_thread(context.strays.end)] if context.strays.find() else []
        await asyncio.wait(ending, timeout=UNKNOWN_S)

    def adopt(self, job: str, number: int) -> None:
        home = self._context.home
        try:
            record = records.read_record(home, job, number)
        except DamagedRecordError as error:
            self.damaged[job, number] = error.message
            log.warning("job %s, attempt %d is lost: %s", job, number, error.message)
            self.unadopted.discard((job, number))
            return
        if record is None:
            records.remove(home, job, number)
        else:
            self._take_up(record)
        self.unadopted.discard((job, number))

    def _take_up(self, record: AttemptRecord) -> None:
        job, number = record.key
        attempt = Attempt(
            self._context, record, AttemptOrder(Wanted.NOTHING, record.generation, record.devices, record.seat)
        )
        if attempt.adopt():
            log.info("job %s, attempt %d: adopted, %s", job, number, attempt.state.value)
            self._begin(attempt)
        else:
            attempt.forget()

    def has_record(self, key: Key) -> bool:
        try:
            return records.read_record(self._context.home, *key) is not None
        except DamagedRecordError:
            return True

    async def lose_damaged(self, key: Key, generation: int) -> None:
        """Say that it is lost, once nothing of it lives."""
        await in_thread(process_tree.end_attempt, self._context.run, *key, self._context.fences.of_job(key[0]))
        if why := self.damaged.get(key):
            about = {"job": key[0], "attempt": key[1], "generation": generation}
            self._context.report({**about, "what": "lost", "message": why})

    async def fence_damaged(self, key: Key) -> None:
        await in_thread(process_tree.end_attempt, self._context.run, *key, self._context.fences.of_job(key[0]))
        self.forget_damaged(key)

    def forget_damaged(self, key: Key) -> None:
        self.damaged.pop(key, None)
        with contained("records stay"):
            records.remove(self._context.home, *key)
