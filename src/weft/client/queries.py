"""What a client asks the daemon without changing anything: jobs, their logs, nodes, the history."""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.client.job_request import checked_id
from weft.client.transport import ENDED, Job, Page, Transport

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    class Filters(TypedDict, total=False):
        """Only jobs in this state (RUNNING, ...), of this name, of this tenant, with ids that begin with this."""

        state: str | None
        name: str | None
        tenant: str | None
        prefix: str | None


MOST_A_PAGE = 1_000
"""The most jobs in one answer of the daemon."""

WAIT_AT_ONCE_S = 30.0
STATUS_EVERY_S = 0.2


class Queries(Transport):
    """The requests of `weft.Client` that change nothing."""

    def queue(self, all: bool = False, **filters: Unpack[Filters]) -> list[Job]:  # noqa: A002 - as in weft queue --all
        """List the jobs that have not ended, in the order of their ids.

        Args:
            all: Ended jobs as well.
            filters: Only jobs with this `state`, `name` or `tenant`, or with ids that begin with `prefix`.

        Example:
            >>> job_id = client.submit("true", name="later", hold=True)
            >>> [job["id"] for job in client.queue(name="later")] == [job_id]
            True
        """
        return list(self.jobs(all, **filters))

    def jobs(self, all: bool = False, **filters: Unpack[Filters]) -> Iterator[Job]:  # noqa: A002
        """Iterate over the same jobs, one page of answers at a time.

        No job is repeated or left out because others are submitted or end meanwhile.

        Args:
            all: Ended jobs as well.
            filters: As for `queue`.

        Example:
            >>> sorted({job["state"] for job in client.jobs(state="PENDING")}) in ([], ["PENDING"])
            True
        """
        cursor = None
        while True:
            page = self.page(all, cursor=cursor, **filters)
            yield from page["jobs"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def page(
        self,
        all: bool = False,  # noqa: A002
        limit: int | None = None,
        cursor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Page:
        """One page of the same jobs.

        Args:
            all: Ended jobs as well.
            limit: The most jobs on the page, up to MOST_A_PAGE.
            cursor: The `next_cursor` of the page before.
            filters: As for `queue`.

        Returns:
            `jobs`, the `total` of all pages, and `next_cursor`, which is None on the last page.

        Example:
            >>> page = client.page(all=True, limit=1)
            >>> len(page["jobs"]) <= 1 <= max(1, page["total"])
            True
        """
        return self._page("/v1/jobs", all="true" if all else "false", limit=limit, cursor=cursor, **filters)

    def status(self, job_id: str) -> Job:
        """One job in full. `ArrayError` for the number of an array.

        Example:
            >>> client.status(client.submit("true", hold=True))["state"]
            'PENDING'
        """
        job: Job = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}")
        return job

    def array(self, array: str | int) -> dict[str, Any]:
        """All elements of an array together: how many are in which state, and why.

        Args:
            array: Its number: what comes before the underscore in the ids of its elements.

        Example:
            >>> elements = client.submit("true", array="1-3", hold=True)
            >>> client.array(elements[0].partition("_")[0])["states"]
            {'PENDING': 3}
        """
        answer: dict[str, Any] = self._ask("GET", f"/v1/arrays/{checked_id(array)}")
        return answer

    def jobs_of(self, job_ids: Sequence[str]) -> list[str]:
        """The ids of the jobs that these ids name, an array's elements for its number. In one request.

        Example:
            >>> elements = client.submit("true", array="1-3", hold=True)
            >>> client.jobs_of([elements[0].partition("_")[0]]) == elements
            True
        """
        from urllib.parse import urlencode

        asked = urlencode([("id", checked_id(job_id)) for job_id in job_ids])
        ids: list[str] = self._ask("GET", f"/v1/ids?{asked}")["ids"]
        return ids

    def why(self, job_id: str) -> dict[str, Any]:
        """What a job waits for, which jobs are ahead of it, when it may start, what preempted it.

        Example:
            >>> client.why(client.submit("true", hold=True))["text"][0]
            '... is PENDING: held by its owner'
        """
        answer: dict[str, Any] = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}/why")
        return answer

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """What happened to a job, in order: each event has `at` and `text`.

        Example:
            >>> client.events(client.submit("true", hold=True))[0]["text"]
            'submitted...'
        """
        events: list[dict[str, Any]] = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}/history")["events"]
        return events

    def wait(self, job_id: str, timeout_s: float | None = None, state_not: str | None = None) -> Job:
        """Wait until a job has ended.

        Args:
            job_id: The job.
            timeout_s: Return the job as it is after this time.
            state_not: Return as soon as its state is another than this.

        Example:
            >>> client.wait(client.submit("true"), timeout_s=60)["state"]
            'SUCCEEDED'
        """
        unless = f"&state_not={state_not}" if state_not else ""

        def is_over(job: Job) -> bool:
            return job["state"] in ENDED or (state_not is not None and job["state"] != state_not)

        return self._wait(f"/v1/jobs/{checked_id(job_id)}/wait?timeout_s={{:.3f}}{unless}", timeout_s, is_over)

    def wait_for(
        self,
        job_ids: Sequence[str],
        any: bool = False,  # noqa: A002 - as in weft wait --any
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Wait until several jobs have ended, in one request.

        Args:
            job_ids: The jobs; the number of an array means all its elements.
            any: Until one of them has ended.
            timeout_s: Return after this time as it is.

        Returns:
            `is_over`, how many `jobs` are in which of the `states`, the `first` to end, and the `unsuccessful`.

        Example:
            >>> client.wait_for(client.submit("true", array="1-2"))["states"]
            {'SUCCEEDED': 2}
        """
        from urllib.parse import urlencode

        asked = urlencode([*(("id", checked_id(job_id)) for job_id in job_ids), ("any", "true" if any else "false")])
        return self._wait(f"/v1/wait?{asked}&timeout_s={{:.3f}}", timeout_s, lambda answer: bool(answer["is_over"]))

    def logs(
        self, job_id: str, follow: bool = False, task: int = 0, stream: str = "out", tail: int | None = None
    ) -> Iterator[str]:
        """Iterate over the lines that a task printed, in all attempts.

        Args:
            job_id: The job.
            follow: Go on until the job has ended.
            task: The rank.
            stream: "out", or "err" where standard error was kept apart.
            tail: Of what is there already, only this many lines.

        Example:
            >>> list(client.logs(client.submit(["printf", "a\\\\nb\\\\n"]), follow=True))
            ['a\\n', 'b\\n']
        """

        def log(job: Job) -> Path:
            return self.home.log(job["id"], task, split=stream == "err")

        return log_lines(lambda: self.status(job_id), log, tail, follow=follow)

    def nodes(self) -> list[dict[str, Any]]:
        """The nodes and their devices, and which jobs are on them.

        Example:
            >>> [device["index"] for node in client.nodes() for device in node["devices"]]
            [0, 1]
        """
        nodes: list[dict[str, Any]] = self._ask("GET", "/v1/nodes")["nodes"]
        return nodes

    def history(self, limit: int | None = None) -> list[Job]:
        """The jobs that have ended, the latest first.

        Args:
            limit: The most jobs; all if not given.

        Example:
            >>> last = client.run("true")
            >>> client.history(limit=1)[0]["id"] == last["id"]
            True
        """
        return list(islice(self._ended(limit), limit))

    def history_page(self, limit: int | None = None, cursor: str | None = None) -> Page:
        """One page of them; arguments and result as for `page`.

        Example:
            >>> sorted(client.history_page(limit=1))
            ['jobs', 'next_cursor', 'total']
        """
        return self._page("/v1/history", limit=limit, cursor=cursor)

    def health(self) -> dict[str, Any]:
        """The daemon: process, version, policy, nodes, how many jobs are in which state, and warnings.

        Example:
            >>> client.health()["version"] == weft.__version__
            True
        """
        answer: dict[str, Any] = self._ask("GET", "/v1/health")
        return answer

    def _ended(self, wanted: int | None) -> Iterator[Job]:
        limit = MOST_A_PAGE if wanted is None else min(wanted, MOST_A_PAGE)
        cursor = None
        while True:
            page = self.history_page(limit, cursor)
            yield from page["jobs"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def _page(self, path: str, **asked: Any) -> Page:
        from urllib.parse import urlencode

        query = urlencode({name: value for name, value in asked.items() if value is not None})
        page: Page = self._ask("GET", f"{path}?{query}" if query else path)
        return page

    def _wait(self, target: str, timeout_s: float | None, is_over: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Ask until it is over: the daemon holds each request for WAIT_AT_ONCE_S at most."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = WAIT_AT_ONCE_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            at_once_s = min(left_s, WAIT_AT_ONCE_S)
            answer: dict[str, Any] = self._ask("GET", target.format(at_once_s), waits_s=at_once_s)
            if is_over(answer) or (deadline_s is not None and time.monotonic() >= deadline_s):
                return answer


def log_lines(
    status: Callable[[], Job], log: Callable[[Job], Path], tail: int | None, *, follow: bool
) -> Iterator[str]:
    """Lines of the job's file `log`: the last `tail` of what is there; `follow`: until its `status` is final."""
    from weft.system.tail import PollingPace, Tail

    job, looked_s = status(), time.monotonic()
    followed, pace = Tail(log(job), tail), PollingPace()
    decoder, line = codecs.getincrementaldecoder("utf-8")("replace"), ""
    try:
        while True:
            is_complete = not follow or job["state"] in ENDED  # asked first, read then: nothing comes later
            data = followed.read()
            *whole, line = (line + decoder.decode(data, final=not data and is_complete)).split("\n")
            yield from (f"{each}\n" for each in whole)
            if not data and is_complete:
                break
            pace.seen(bool(data))
            if not data:
                time.sleep(pace.wait_s)
            if not is_complete and time.monotonic() > looked_s + STATUS_EVERY_S:
                job, looked_s = status(), time.monotonic()
    finally:
        followed.close()
    if line:
        yield line
