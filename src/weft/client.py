"""`weft.Client`: the verbs of the command line, from Python. A job is a dict, as in JSON."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, overload

from weft.core.errors import InputError, WeftError
from weft.home import Home
from weft.job_request import checked_id, job_request
from weft.system.files import user_name
from weft.system.runtime_dir import NotMadeError, check_owner
from weft.unixhttp import Connection

if TYPE_CHECKING:
    from typing import TypedDict, Unpack

    from weft.job_request import Options

    class Filters(TypedDict, total=False):
        """Only jobs in a state (RUNNING, ...), of a name, of a tenant, or whose ids begin so."""

        state: str | None
        name: str | None
        tenant: str | None
        prefix: str | None


Job = dict[str, Any]
Page = dict[str, Any]
MOST_A_PAGE = 1_000
"""Jobs that the daemon answers with at once."""

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")
ANSWER_S = 10.0
RESTART_S = 5.0
LOOK_AGAIN_S = 0.05
WAIT_AT_ONCE_S = 30.0
STATUS_EVERY_S = 0.2
THE_PERSONS = (400, 404, 405, 413, 422)


class UnreachableError(WeftError):
    """The daemon cannot be asked now; jobs go on without it."""


class ArrayError(InputError):
    """The id is that of an array, and what was asked for is one job's."""


class NotRunningError(UnreachableError):
    """There is no daemon."""


class Client:
    """Talks to the daemon of a home: WEFT_HOME or ~/.weft, unless another is given. `start`: start one if none runs.

    For one thread at a time. A daemon that is restarted in the middle of a request is waited for.
    """

    def __init__(
        self, home: Home | str | os.PathLike[str] | None = None, start: bool = False, timeout_s: float = ANSWER_S
    ) -> None:
        found = Home.find() if home is None else home
        self.home = home_of = found if isinstance(found, Home) else Home(Path(found).expanduser().resolve())
        self.timeout_s = timeout_s
        self.restart_s = RESTART_S
        self._connection = Connection(lambda: _socket_of(home_of))
        if start:
            from weft.daemon_start import start_daemon

            start_daemon(self.home)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    @overload
    def submit(self, command: str | Sequence[str], array: None = None, **options: Unpack[Options]) -> str: ...

    @overload
    def submit(self, command: str | Sequence[str], array: str, **options: Unpack[Options]) -> list[str]: ...

    def submit(
        self, command: str | Sequence[str], array: str | None = None, **options: Unpack[Options]
    ) -> str | list[str]:
        """The id of a new job, once it is on disk; of an array, the ids of its elements.

        Sizes and times are numbers, in bytes and seconds, or text: gpu_mem="4G", time="2h".
        """
        answer = self.send(job_request(command, array, options))
        return str(answer["id"]) if array is None else [str(each) for each in answer["ids"]]

    def send(self, request: dict[str, Any]) -> dict[str, Any]:
        """Submit what `job_request` made. It has a name of its own, so that sent twice it is still one job."""
        named = {**request, "request_id": os.urandom(16).hex()}
        answer: dict[str, Any] = self._ask("POST", "/v1/jobs", named)
        return answer

    def run(self, command: str | Sequence[str], **options: Unpack[Options]) -> Job:
        """Submit a job and wait for its end."""
        return self.wait(self.submit(command, **options))

    def queue(self, all: bool = False, **filters: Unpack[Filters]) -> list[Job]:  # noqa: A002 - as in weft queue --all
        """The jobs that have not ended, or all, in the order of their ids: every one, however many pages that takes."""
        return list(self.jobs(all, **filters))

    def jobs(self, all: bool = False, **filters: Unpack[Filters]) -> Iterator[Job]:  # noqa: A002
        """The same one by one, a page at a time. No job comes twice or is left out because others come and go."""
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
        """One page: its `jobs`, the `total` of all pages, and the `next_cursor`, None on the last."""
        return self._page("/v1/jobs", all="true" if all else "false", limit=limit, cursor=cursor, **filters)

    def status(self, job_id: str) -> Job:
        job: Job = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}")
        return job

    def array(self, array: str | int) -> dict[str, Any]:
        """All elements of an array together: how many are in which state, and why."""
        answer: dict[str, Any] = self._ask("GET", f"/v1/arrays/{checked_id(array)}")
        return answer

    def jobs_of(self, job_ids: Sequence[str]) -> list[str]:
        """The ids of all jobs that these stand for: of an array, those of its elements. In one request."""
        from urllib.parse import urlencode

        asked = urlencode([("id", checked_id(job_id)) for job_id in job_ids])
        ids: list[str] = self._ask("GET", f"/v1/ids?{asked}")["ids"]
        return ids

    def why(self, job_id: str) -> dict[str, Any]:
        """What it waits for, who is ahead, when it may start, what preempted it."""
        answer: dict[str, Any] = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}/why")
        return answer

    def events(self, job_id: str) -> list[dict[str, Any]]:
        """What happened to it, in order."""
        events: list[dict[str, Any]] = self._ask("GET", f"/v1/jobs/{checked_id(job_id)}/history")["events"]
        return events

    def wait(self, job_id: str, timeout_s: float | None = None, state_not: str | None = None) -> Job:
        """The job once it has ended, or once its state is another than `state_not`, or after the timeout as it is."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        unless = f"&state_not={state_not}" if state_not else ""
        while True:
            left_s = WAIT_AT_ONCE_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            at_once_s = min(left_s, WAIT_AT_ONCE_S)
            target = f"/v1/jobs/{checked_id(job_id)}/wait?timeout_s={at_once_s:.3f}{unless}"
            job: Job = self._ask("GET", target, waits_s=at_once_s)
            is_over = job["state"] in ENDED or (state_not is not None and job["state"] != state_not)
            if is_over or (deadline_s is not None and time.monotonic() >= deadline_s):
                return job

    def wait_for(
        self,
        job_ids: Sequence[str],
        any: bool = False,  # noqa: A002 - as in weft wait --any
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """How these jobs stand together once all of them have ended, or any one; or after the timeout.

        The number of an array means all its elements, which are waited for in one request.
        """
        from urllib.parse import urlencode

        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        asked = [("id", checked_id(job_id)) for job_id in job_ids] + [("any", "true" if any else "false")]
        while True:
            left_s = WAIT_AT_ONCE_S if deadline_s is None else max(0.0, deadline_s - time.monotonic())
            at_once_s = min(left_s, WAIT_AT_ONCE_S)
            target = f"/v1/wait?{urlencode([*asked, ('timeout_s', f'{at_once_s:.3f}')])}"
            answer: dict[str, Any] = self._ask("GET", target, waits_s=at_once_s)
            if answer["is_over"] or (deadline_s is not None and time.monotonic() >= deadline_s):
                return answer

    def logs(
        self, job_id: str, follow: bool = False, task: int = 0, stream: str = "out", tail: int | None = None
    ) -> Iterator[str]:
        """The lines a task printed; `follow`: and those to come, until the job has ended. `stream`: out or err.

        `tail`: of what is there, only so many lines.
        """
        import codecs

        from weft.system.tail import PollingPace, Tail

        job, looked_s = self.status(job_id), time.monotonic()
        followed, pace = Tail(self.home.log(job["id"], task, split=stream == "err"), tail), PollingPace()
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
                    job, looked_s = self.status(job_id), time.monotonic()
        finally:
            followed.close()
        if line:
            yield line

    def cancel(self, *job_ids: str) -> list[str]:
        """End these jobs; which ones are ending now. The number of an array means all its elements."""
        return self._tell("cancel", job_ids)

    def hold(self, *job_ids: str) -> list[str]:
        """Keep these jobs from starting."""
        return self._tell("hold", job_ids)

    def release(self, *job_ids: str) -> list[str]:
        """Let jobs that were held start."""
        return self._tell("release", job_ids)

    def pause(self, *job_ids: str) -> list[str]:
        """Pause these jobs at their next step boundary, and keep those that wait from starting, until `resume`."""
        return self._tell("pause", job_ids)

    def resume(self, *job_ids: str) -> list[str]:
        """Let jobs go on that their owner paused or held."""
        return self._tell("resume", job_ids)

    def rerun(self, job_id: str) -> str:
        """Submit again what a job was that has ended; the id of the new one. Of an array, all its elements."""
        named = {"request_id": os.urandom(16).hex()}
        answer: dict[str, Any] = self._ask("POST", f"/v1/jobs/{checked_id(job_id)}/rerun", named)
        return str(answer["ids"][0] if len(answer["ids"]) == 1 else answer["id"])

    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self._ask("GET", "/v1/nodes")["nodes"]
        return nodes

    def history(self, limit: int | None = None) -> list[Job]:
        """Jobs that have ended, the latest first: so many, or all."""
        return list(islice(self._ended(limit), limit))

    def history_page(self, limit: int | None = None, cursor: str | None = None) -> Page:
        """One page of them, as `page`."""
        return self._page("/v1/history", limit=limit, cursor=cursor)

    def _ended(self, wanted: int | None) -> Iterator[Job]:
        limit = MOST_A_PAGE if wanted is None else min(wanted, MOST_A_PAGE)
        cursor = None
        while True:
            page = self.history_page(limit, cursor)
            yield from page["jobs"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    def policy(self, name: str | None = None) -> str:
        """The policy that decides; with a name, from now on that one. No job is restarted."""
        answer = self._ask("GET", "/v1/policy") if name is None else self._ask("PUT", "/v1/policy", {"policy": name})
        return str(answer["policy"])

    def health(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._ask("GET", "/v1/health")
        return answer

    def shutdown(self, stop_jobs: bool = False) -> float:
        """Ask the daemon and its coordinator to end. Jobs go on, unless they are to be stopped too.

        Returns for how many seconds the daemon may yet wait until the processes of those that it stops are gone.
        """
        answer = self._ask("POST", "/v1/shutdown", {"stop_jobs": stop_jobs}, again=False)
        return float(answer.get("within_s", 0.0))

    def _page(self, path: str, **asked: Any) -> Page:
        from urllib.parse import urlencode

        query = urlencode({name: value for name, value in asked.items() if value is not None})
        page: Page = self._ask("GET", f"{path}?{query}" if query else path)
        return page

    def _tell(self, what: str, job_ids: Sequence[str]) -> list[str]:
        checked = [checked_id(job_id) for job_id in job_ids]
        return [each for job_id in checked for each in self._ask("POST", f"/v1/jobs/{job_id}/{what}")["ids"]]

    def _ask(
        self, method: str, target: str, body: dict[str, Any] | None = None, waits_s: float = 0.0, again: bool = True
    ) -> Any:
        """Ask, and ask again over a new connection if this one is lost: all but a shutdown may be repeated."""
        written = None if body is None else json.dumps(body).encode("ascii")
        given_up_s = 0.0
        busy_until_s = time.monotonic() + self.timeout_s
        while True:
            try:
                answer = self._connection.request(method, target, written, self.timeout_s + waits_s)
                again_in_s = self._connection.again_in_s
                if again_in_s is None or time.monotonic() + again_in_s > busy_until_s:
                    return _checked(*answer)
                time.sleep(again_in_s)
            except TimeoutError:
                raise self._silent() from None
            except PermissionError as error:
                check_owner(self.home.root)
                raise WeftError(f"{self.home.socket} cannot be used: {error}", "weft doctor") from error
            except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError, NotMadeError) as error:
                if time.monotonic() > given_up_s:
                    raise NotRunningError("weft is not running", "weft up") from error
            except (ConnectionError, ValueError) as error:  # in the middle: it was killed, or is being restarted
                given_up_s = given_up_s or time.monotonic() + self.restart_s
                if not again or time.monotonic() > given_up_s:
                    hint = f"see {self.home.daemon_log}, then: weft up"
                    raise UnreachableError("the daemon ended while it was asked", hint) from error
            time.sleep(LOOK_AGAIN_S)

    def _silent(self) -> UnreachableError:
        """Why nobody answered, as far as we can see from here."""
        from weft.system.processes import process

        text = self.home.daemon_lock.read_text().strip() if self.home.daemon_lock.exists() else ""
        found = process(int(text)) if text.isdecimal() else None
        if found is None:
            return UnreachableError(f"the daemon did not answer within {self.timeout_s:g} s", "weft doctor")
        if found.state in ("T", "t"):
            return UnreachableError(f"the daemon (process {text}) is stopped", f"let it go on: kill -CONT {text}")
        hint = f"see {self.home.daemon_log}; if it hangs: kill -9 {text}, then weft up; no job is lost"
        what = f"the daemon (process {text}) did not answer within {self.timeout_s:g} s"
        return UnreachableError(f"{what}; it may yet do what it was asked", hint)


def _socket_of(home: Home) -> str:
    """Looked up with each connection: a daemon that starts may have to use another folder. It must be ours."""
    path = home.socket
    status = path.lstat()
    if not stat.S_ISSOCK(status.st_mode):
        raise ConnectionRefusedError(f"{path} is not a socket")
    if status.st_uid not in (os.getuid(), 0):
        raise PermissionError(f"it belongs to {user_name(status.st_uid)}")
    return str(path)


def _checked(status: int, body: bytes) -> Any:
    """What was answered, or the error it is."""
    if status < 300:
        return json.loads(body) if body else {}
    try:
        told = json.loads(body)
    except ValueError:
        told = body.decode("utf-8", "replace").strip()
    if not isinstance(told, dict):
        told = {"error": told}
    message = told.get("error") or told.get("detail") or f"the daemon answered {status}"
    if told.get("array"):
        raise ArrayError(str(message), str(told.get("hint") or ""))
    raise (InputError if status in THE_PERSONS else WeftError)(str(message), str(told.get("hint") or ""))
