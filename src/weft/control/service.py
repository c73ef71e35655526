"""All that the REST API can ask of the daemon."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from weft import __version__
from weft.control.api.listings import PageQuery, array_summary, history_page, live_page, page, selected, waited_for
from weft.control.api.views import Json, Views, iso
from weft.control.clock import Clock
from weft.control.coordinator_link import CoordinatorLink
from weft.control.loop.control_state import ControlState
from weft.control.loop.inputs import ChangePolicy, Input, StopAll, Submit
from weft.control.loop.job_record import JobRecord
from weft.control.loop.requests import ArrayIdError, ConflictError, no_such_job
from weft.control.loop.writer import Counts, Writer
from weft.control.store.log_store import LogStore, Row
from weft.control.store.replay import recall
from weft.core.errors import InputError
from weft.core.view import Decider
from weft.policies.loader import NamedPolicy, policies_asked
from weft.system.home import Home
from weft.system.settings import Settings, load_settings
from weft.system.units import parse_array

PATIENCE_S = 60.0
"""How long shutdown waits for stopping jobs to end, beyond their grace."""
ROOT_WARNING = "it runs as root, and so does every job"
RENDERERS = 4
AS_SUBMITTED_NOW: dict[str, Any] = {
    "after": [],
    "begin_at": None,
    "hold": False,
    "stdin": False,
    "split": False,
    "tty": None,
}
"""It starts as soon as it can, with no client attached: its dependencies are over, and it has no input."""

P = ParamSpec("P")
T = TypeVar("T")


class ReaderPool:
    """Reads in threads of its own, so that the event loop stays responsive. `settled` is held during an instant."""

    def __init__(self, settled: asyncio.Condition) -> None:
        self._settled = settled
        self._looking = ThreadPoolExecutor(1, "look")
        self._rendering = ThreadPoolExecutor(RENDERERS, "render")

    async def look(self, read: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """What `read` finds between two instants: all of it on disk, none of it half-done. The writer waits for it."""

        async def look() -> T:
            async with self._settled:
                return await _run(self._looking, partial(read, *arguments, **named))

        # The request may be cancelled; the look still ends before the writer goes on.
        return await asyncio.shield(asyncio.create_task(look()))

    async def aside(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Work that needs no state of the writer: making JSON, querying the database."""
        return await _run(self._rendering, partial(work, *arguments, **named))

    def close(self) -> None:
        self._looking.shutdown()
        self._rendering.shutdown()


async def _run(threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, work)


class ControlService:
    def __init__(
        self,
        home: Home,
        store: LogStore,
        writer: Writer,
        link: CoordinatorLink,
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
        """Other sources of warnings: tasks, connections, the coordinator."""
        self._farewell: asyncio.Task[None] | None = None
        self._started_at = self.clock.peek()

    @property
    def control(self) -> ControlState:
        return self._writer.control

    @property
    def policy_name(self) -> str:
        return self._policy.label

    @property
    def counts(self) -> Counts:
        """Of jobs by state, as of the last instant that is on disk."""
        return self._writer.counts

    @property
    def settled(self) -> asyncio.Condition:
        """Readers hold this, and see only what is on disk."""
        return self._writer.changed

    async def ask(self, asked: Input) -> Any:
        return await self._writer.ask(asked)

    def new_policy(self) -> Decider:
        """A new instance of the policy in force."""
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
        """Answered at once, with how long the shutdown may take."""
        ended = (await self.ask(StopAll()))["ids"] if stop_jobs else []
        within_s = self._patience_s if self.control.is_stopping else 0.0
        self._farewell = asyncio.create_task(self._leave_when_ended())
        return {"ids": ended, "within_s": within_s}

    async def _leave_when_ended(self) -> None:
        """Stopping jobs have some time to end; those left over are stopped at the next start."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s), self.settled:
                await self.settled.wait_for(lambda: not self.control.is_stopping)
        self.leaving.set()

    # ---- jobs

    def live(self, record: JobRecord) -> Json:
        return self.views.live(self.control, record, self.clock.peek())

    def job(self, job_id: str) -> Json:
        record = self.control.records.get(job_id)
        if record is not None:
            return self.live(record)
        attempts = self.store.all("attempts_of_job", job_id)
        devices = json.loads(attempts[-1]["devices"]) if attempts else []
        return {**self.views.ended(self.row(job_id)), "devices": devices}

    def check_known(self, job_id: str) -> None:
        if job_id not in self.control.records:
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
            raise ArrayIdError(
                f"{job_id} is an array", f"weft status {elements[0]['id']}; its elements are {named}{more}"
            )
        raise no_such_job(job_id)

    def variables(self, job_id: str) -> list[str]:
        """The names of the variables in a job's environment."""
        record = self.control.records.get(job_id)
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
                await self.settled.wait_for(lambda: selection.is_over(self.control, is_any=is_any))
        return await self.readers.look(lambda: waited_for(selection, self.control, self.store, is_any=is_any))

    async def array(self, array: str) -> Json:
        def look() -> Json:
            return array_summary(self.control, self.store, self.views, self.home, array, self.clock.peek())

        return await self.readers.look(look)

    async def rerun(self, job_id: str, request_id: str | None) -> Any:
        """Submit again what has ended."""
        return await self.ask(await self.readers.look(resubmission, self.store, job_id, request_id))

    def _state(self, job_id: str) -> str:
        return self.control.job_state(job_id) if job_id in self.control.records else str(self.row(job_id)["state"])

    async def page(self, wanted: PageQuery) -> bytes:
        """Of the jobs: looked up between two instants, made into JSON while the writer goes on."""
        live = await self.readers.look(lambda: live_page(self.control, self.views, wanted, self.clock.peek()))
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
            "settling": len(
                self.control.settling & {(one.id, one.attempt) for one in self.control.live_jobs.alive.values()}
            ),
            "lost": self.lost(),
            "warnings": self.warnings(),
        }

    def lost(self) -> list[Json]:
        """The jobs that lost an attempt since this daemon began, and where each begins again; null: it does not."""
        live = [(record, record.loss) for record in self.control.live_jobs.lost.values() if record.loss]
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
        if self.control.policy_error:
            found.append(f"the policy {self.policy_name} fails: {self.control.policy_error}")
        if self.control.quotas and not self.control.scheduler.heeds_classes:
            found.append(f"under the policy {self.policy_name} quotas and classes do not count; under weft they do")
        found += [warning for warnings in self.watched for warning in warnings()]
        return found + self._settings_warnings()

    def _settings_warnings(self) -> list[str]:
        try:
            is_as_read = load_settings(self.home.settings, {}, {}) == self._filed
        except InputError as error:
            return [f"{error.message}; weft would not start again with it"]
        return [] if is_as_read else ["weft.toml has changed since weft started: weft down, then weft up takes it up"]


def resubmission(store: LogStore, wanted: str, request_id: str | None) -> Submit:
    """Of an array by its number, all elements; of one element, an array of that element alone, with its index."""
    row = store.one("job", wanted)
    is_array = row is None
    if row is None:
        row = _first_of_array(store, wanted)
    elif row["finished_at"] is None:
        raise ConflictError(f"job {wanted} has not ended", f"weft cancel {wanted}, and weft wait {wanted}, come first")
    request = {**json.loads(row["request"]), **AS_SUBMITTED_NOW, "array_limit": None}
    if is_array:
        request["array_indices"], request["array_limit"] = parse_array(request["array"])
    elif row["array_index"] is not None:
        request["array"], request["array_indices"] = str(row["array_index"]), [row["array_index"]]
    return Submit(request, _environment(store, row), request_id)


def _first_of_array(store: LogStore, wanted: str) -> Row:
    counts = store.one("element_counts", int(wanted)) if wanted.isdecimal() else None
    row = store.one("first_element", int(wanted)) if counts and counts["jobs"] else None
    if counts is None or row is None:
        raise no_such_job(wanted)
    if counts["ended"] < counts["jobs"]:
        left = f"{counts['jobs'] - counts['ended']:,} of the {counts['jobs']:,} elements of array {wanted}"
        raise ConflictError(f"{left} have not ended", f"weft cancel {wanted}, and weft wait {wanted}, come first")
    return row


def _environment(store: LogStore, row: Row) -> dict[str, str]:
    if row["environment"] is None:
        command = " ".join(json.loads(row["request"])["command"])[:60]
        raise ConflictError(
            f"the environment of job {row['id']} is not kept any more: it ended too long ago",
            f"submit it again from a shell like the one it was submitted from: weft submit -- {command}",
        )
    return store.environment(row["environment"])
