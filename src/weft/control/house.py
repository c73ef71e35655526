"""Everything the daemon consists of, as its REST API sees it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from weft import __version__
from weft.control.clock import Clock
from weft.control.counts import Counts
from weft.control.desk import Desk
from weft.control.fold import recall
from weft.control.inputs import ChangePolicy, Input, StopAll
from weft.control.job_pages import Wanted, history_page, live_page, page
from weft.control.link import Link
from weft.control.reader_pool import ReaderPool
from weft.control.record import Record
from weft.control.refusals import ArrayError, no_such_job
from weft.control.resubmission import resubmission
from weft.control.selection import array_summary, selected, waited_for
from weft.control.store import Row, Store
from weft.control.views import Json, Views, iso
from weft.control.writer import Writer
from weft.core.errors import InputError
from weft.core.view import Decider
from weft.policies.loader import NamedPolicy, policies_asked
from weft.system.home import Home
from weft.system.settings import Settings, load_settings

PATIENCE_S = 60.0
"""How long the end of those that were told to end is waited for, beyond their grace."""
ROOT_WARNING = "it runs as root, and so does every job"


class House:
    def __init__(
        self,
        home: Home,
        store: Store,
        writer: Writer,
        link: Link,
        policy: NamedPolicy,
        filed: Settings,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.home = home
        self.store = store
        self.link = link
        self.clock: Clock = writer.clock
        self.views = Views(home)
        self.leaving = asyncio.Event()
        self.readers = ReaderPool(writer.changed)
        self._writer = writer
        self._policy = policy
        self._filed = filed
        """What weft.toml said when weft started."""
        self._patience_s = patience_s
        self.watched: list[Callable[[], list[str]]] = []
        """What else has warnings for people: tasks, connections, the coordinator."""
        self._farewell: asyncio.Task[None] | None = None
        self._started_at = self.clock.peek()

    @property
    def desk(self) -> Desk:
        return self._writer.desk

    @property
    def policy_name(self) -> str:
        return self._policy.label

    @property
    def counts(self) -> Counts:
        """Of jobs by state, as of the last instant that is on disk."""
        return self._writer.counts

    @property
    def settled(self) -> asyncio.Condition:
        """Whoever reads does it under this, and sees only what is on disk."""
        return self._writer.changed

    async def ask(self, wish: Input) -> Any:
        return await self._writer.ask(wish)

    def new_policy(self) -> Decider:
        """A fresh one like the one in force."""
        policy = self._policy.build()
        recall(self.store, policy)
        return policy

    async def change_policy(self, name: str) -> Any:
        asked = policies_asked(name)
        if len(asked) > 1:
            raise InputError(f"{len(asked)} policies are named", "one of them schedules")
        policy = asked[0].build()
        recall(self.store, policy)
        answer = await self.ask(ChangePolicy(name, policy))
        self._policy = asked[0]
        return answer

    async def shut_down(self, stop_jobs: bool) -> Json:
        """Answered at once, with how long the rest may take."""
        ended = (await self.ask(StopAll()))["ids"] if stop_jobs else []
        within_s = self._patience_s if self.desk.is_stopping else 0.0
        self._farewell = asyncio.create_task(self._leave_when_ended())
        return {"ids": ended, "within_s": within_s}

    async def _leave_when_ended(self) -> None:
        """Those that were told to end have some time for it; what then is left ends with the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s), self.settled:
                await self.settled.wait_for(lambda: not self.desk.is_stopping)
        self.leaving.set()

    # ---- jobs

    def live(self, record: Record) -> Json:
        return self.views.live(self.desk, record, self.clock.peek())

    def job(self, job_id: str) -> Json:
        record = self.desk.records.get(job_id)
        if record is not None:
            return self.live(record)
        attempts = self.store.all("attempts_of_job", job_id)
        devices = json.loads(attempts[-1]["devices"]) if attempts else []
        return {**self.views.ended(self.row(job_id)), "devices": devices}

    def check_known(self, job_id: str) -> None:
        if job_id not in self.desk.records:
            self.row(job_id)

    def row(self, job_id: str) -> Row:
        """Of a job that is over."""
        row = self.store.one("job", job_id)
        if row is not None:
            return row
        elements = self.store.all("elements", int(job_id)) if job_id.isdecimal() else []
        if elements:
            named = ", ".join(element["id"] for element in elements[:5])
            more = ", …" if len(elements) > 5 else ""
            raise ArrayError(
                f"{job_id} is an array", f"weft status {elements[0]['id']}; its elements are {named}{more}"
            )
        raise no_such_job(job_id)

    def variables(self, job_id: str) -> list[str]:
        """The names of the variables in a job's environment."""
        record = self.desk.records.get(job_id)
        return sorted(self.store.environment(record.environment)) if record else []

    async def wait_until(self, job_id: str, is_so: Callable[[str], bool], timeout_s: float) -> Json:
        """The job once its state is so, or after the timeout."""
        deadline = time.monotonic() + timeout_s
        async with self.settled:
            while not is_so(self._state(job_id)):
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    break
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self.settled.wait()
        return await self.readers.look(self.job, job_id)

    async def wait_for(self, ids: Sequence[str], is_any: bool, timeout_s: float) -> Json:
        """How these jobs stand once all of them have ended, or any one, or after the timeout."""
        selection = await self.readers.look(selected, self.store, ids)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self.settled:
                await self.settled.wait_for(lambda: selection.is_over(self.desk, is_any=is_any))
        return await self.readers.look(lambda: waited_for(selection, self.desk, self.store, is_any=is_any))

    async def array(self, array: str) -> Json:
        def look() -> Json:
            return array_summary(self.desk, self.store, self.views, self.home, array, self.clock.peek())

        return await self.readers.look(look)

    async def rerun(self, job_id: str, request_id: str | None) -> Any:
        """Submit again what has ended."""
        return await self.ask(await self.readers.look(resubmission, self.store, job_id, request_id))

    def _state(self, job_id: str) -> str:
        return self.desk.state(job_id) if job_id in self.desk.records else str(self.row(job_id)["state"])

    async def page(self, wanted: Wanted) -> bytes:
        """Of the jobs: looked up between two instants, made into JSON while the writer goes on."""
        live = await self.readers.look(lambda: live_page(self.desk, self.views, wanted, self.clock.peek()))
        return await self.readers.aside(page, live, self.store, self.views, wanted, self.counts.ended)

    async def history(self, limit: int, cursor: str | None) -> bytes:
        return await self.readers.aside(
            history_page, self.store, self.views, limit, cursor, sum(self.counts.ended.values())
        )

    # ---- the whole

    def health(self) -> Json:
        return {
            "version": __version__,
            "pid": os.getpid(),
            "policy": self.policy_name,
            "started_at": iso(self._started_at),
            "now": iso(self.clock.peek()),
            "home": str(self.home.root),
            "nodes": int(self.link.is_up),
            "jobs": dict(self.counts.all),
            "settling": len(self.desk.settling & {(one.id, one.attempt) for one in self.desk.roster.alive.values()}),
            "lost": self.lost(),
            "warnings": self.warnings(),
        }

    def lost(self) -> list[Json]:
        """The jobs that lost an attempt since this daemon began, and where each begins again; null: it does not."""
        live = [(record, record.loss) for record in self.desk.roster.lost.values() if record.loss]
        again = [
            {"id": record.id, "name": record.name, "step": loss.step}
            for record, loss in sorted(live, key=lambda one: one[0].key)
            if loss.at >= self._started_at
        ]
        over = self.store.all("lost_for_good", self._started_at)
        return again + [{"id": row["id"], "name": row["name"], "step": None} for row in over]

    def warnings(self) -> list[str]:
        found = [ROOT_WARNING] if os.getuid() == 0 else []
        if not self.link.is_up:
            found.append("the coordinator does not answer; jobs that run go on")
        if self._writer.trouble:
            found.append(self._writer.trouble)
        if self.desk.policy_error:
            found.append(f"the policy {self.policy_name} fails: {self.desk.policy_error}")
        if self.desk.quotas and not self.desk.scheduler.heeds_classes:
            found.append(f"under the policy {self.policy_name} quotas and classes do not count; under weft they do")
        found += [warning for warnings in self.watched for warning in warnings()]
        return found + self._settings_warnings()

    def _settings_warnings(self) -> list[str]:
        try:
            is_as_read = load_settings(self.home.settings, {}, {}) == self._filed
        except InputError as error:
            return [f"{error.message}; weft would not start again with it"]
        return [] if is_as_read else ["weft.toml has changed since weft started: weft down, then weft up takes it up"]
