"""REST under /v1: thin. Everything is decided at the desk, and answered once it is on disk."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, StreamingResponse
from starlette.exceptions import HTTPException

from weft import __version__
from weft.control import answers
from weft.control.bodies import Bodies
from weft.control.happenings import events
from weft.control.house import House
from weft.control.inputs import Cancel, Hold, Pause, Release, Submit
from weft.control.job_pages import MOST_A_PAGE, Wanted
from weft.control.models import ID, NUMBER, ROOM_BYTES, JobId, JobRequest, PolicyName, Reference, Rerun, Shutdown
from weft.control.record import State
from weft.control.refusals import ArrayError, ConflictError, NotFoundError
from weft.control.selection import expanded
from weft.control.store import StoreError
from weft.control.views import Json, nodes_json
from weft.control.why import why_ended, why_live, with_estimate
from weft.control.writer import LeavingError
from weft.core.errors import InputError, WeftError
from weft.system.request_limits import body_bytes
from weft.system.tail import MOST_LINES, NoFileError, last_lines_at, read_piece

CODES = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (InputError, 400),
    (StoreError, 507),
    (LeavingError, 503),
    (NoFileError, 409),
    (WeftError, 500),
)
ENDED = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
MOST_SAID = 500
"""Letters of a refusal: it repeats what was sent."""
LOOK_EVERY_S = 0.1
Limit = Annotated[int, Query(ge=1, le=MOST_A_PAGE, description="of jobs on a page")]
Timeout = Annotated[float, Query(ge=0, le=3600, allow_inf_nan=False)]
MOST_NAMED = 1_000
"""Ids in one request; the number of an array is one of them."""
Cursor = Annotated[str | None, Query(pattern=ID, description="next_cursor of the page before")]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": answers.Problem, "description": text}
    for code, text in (
        (400, "What was asked for cannot be done as written"),
        (404, "Nothing has that name"),
        (408, "The body did not come in time"),
        (409, "Not in the state that the job is in"),
        (413, "The body is too large"),
        (422, "What was sent is malformed"),
        (503, "There are too many requests; try again after the time that the answer says"),
        (507, "The log could not be written; nothing was accepted"),
    )
}


class Plain(JSONResponse):
    """JSON in plain ASCII: names of files may hold bytes that are no text."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False).encode("ascii")


class Encoded(Response):
    """JSON that is text already."""

    media_type = "application/json"


def make_app(house: House) -> FastAPI:
    app = FastAPI(
        title="weft",
        version=__version__,
        description="Jobs that share devices.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/v1/openapi.json",
        default_response_class=Plain,
        responses=PROBLEMS,
    )
    app.add_middleware(Bodies, most_bytes=body_bytes(ROOM_BYTES))
    app.add_exception_handler(WeftError, _say_error)
    app.add_exception_handler(RequestValidationError, _say_malformed)
    app.add_exception_handler(HTTPException, _say_http)
    _jobs(app, house)
    _one_job(app, house)
    _changes(app, house)
    _around(app, house)
    return app


def _jobs(app: FastAPI, house: House) -> None:
    @app.post("/v1/jobs", status_code=201, response_model=answers.Submitted)
    async def submit(request: JobRequest) -> Response:
        asked = request.complete()
        if request.begin_at is not None:  # by the clock on the wall; the daemon's own goes on evenly
            asked["begin_at"] = house.clock.peek() + (request.begin_at - time.time())
        return Plain(await house.ask(Submit(asked, request.environment, request.request_id)), 201)

    @app.get("/v1/jobs", response_model=answers.Jobs)
    async def jobs(
        all: bool = False,  # noqa: A002 - as it is called in the query
        state: answers.JobState | None = None,
        name: Annotated[str | None, Query(max_length=200)] = None,
        tenant: Annotated[str | None, Query(max_length=200)] = None,
        prefix: Annotated[str | None, Query(pattern="^[0-9_]{1,30}$", description="of its id")] = None,
        limit: Limit = MOST_A_PAGE,
        cursor: Cursor = None,
    ) -> Response:
        return Encoded(await house.page(Wanted(state, name, tenant, prefix, all, cursor, limit)))

    @app.get("/v1/wait", response_model=answers.Waited)
    async def wait_for(
        id: Annotated[list[Reference], Query(min_length=1, max_length=MOST_NAMED)],  # noqa: A002
        any: bool = False,  # noqa: A002
        timeout_s: Timeout = 30.0,
    ) -> Response:
        return Plain(await house.wait_for(id, any, timeout_s))

    @app.get("/v1/ids", response_model=answers.Changed)
    async def ids(id: Annotated[list[Reference], Query(min_length=1, max_length=MOST_NAMED)]) -> Response:  # noqa: A002
        return Plain({"ids": await house.readers.aside(expanded, house.store, id)})

    @app.get("/v1/arrays/{array}", response_model=answers.Array)
    async def array(array: Annotated[str, InPath(pattern=NUMBER)]) -> Response:
        return Plain(await house.array(array))

    @app.get("/v1/history", response_model=answers.Jobs)
    async def history(limit: Limit = 100, cursor: Cursor = None) -> Response:
        return Encoded(await house.history(limit, cursor))


def _one_job(app: FastAPI, house: House) -> None:
    @app.get("/v1/jobs/{job_id}", response_model=answers.OneJob)
    async def job(job_id: JobId) -> Response:
        def look() -> Json:
            return {**house.job(job_id), "env": dict.fromkeys(house.variables(job_id), "(hidden)")}

        return Plain(await house.readers.look(look))

    @app.get("/v1/jobs/{job_id}/wait", response_model=answers.Job)
    async def wait(
        job_id: JobId,
        timeout_s: Timeout = 30.0,
        state_not: Annotated[str | None, Query(max_length=20)] = None,
    ) -> Response:
        def is_so(state: str) -> bool:
            return state in ENDED or (state_not is not None and state != state_not)

        return Plain(await house.wait_until(job_id, is_so, timeout_s))

    @app.get("/v1/jobs/{job_id}/why", response_model=answers.Why)
    async def why(job_id: JobId) -> Response:
        def look() -> Json:
            if job_id not in house.desk.records:
                return why_ended(house.row(job_id), house.store)
            now = house.clock.peek()
            return why_live(house.desk, house.store, house.views, job_id, now, house.new_policy)

        return Plain(await with_estimate(await house.readers.look(look)))

    @app.get("/v1/jobs/{job_id}/history", response_model=answers.Happenings)
    async def history_of(job_id: JobId) -> Response:
        await house.readers.look(house.check_known, job_id)
        return Plain({"events": await house.readers.aside(lambda: events(house.store.all("log_of_job", job_id)))})

    @app.get("/v1/jobs/{job_id}/logs", response_class=StreamingResponse)
    async def logs(
        job_id: JobId,
        task: Annotated[int, Query(ge=0, le=10_000)] = 0,
        stream: Annotated[str, Query(pattern="^(out|err)$")] = "out",
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        follow: bool = False,
        tail: Annotated[int | None, Query(ge=0, le=MOST_LINES, description="the last lines alone")] = None,
    ) -> Response:
        await house.readers.look(house.check_known, job_id)
        path = house.home.log(job_id, task, split=stream == "err")
        try:
            if tail is not None:
                offset = max(offset, await house.readers.aside(last_lines_at, path, tail))
            read_piece(path, offset)
        except OSError as error:
            if not (follow and job_id in house.desk.records):
                message = f"task {task} of job {job_id} has written nothing to {stream}"
                raise NotFoundError(message, "has it started?") from error
        return StreamingResponse(_pieces(house, job_id, path, offset, follow), media_type="text/plain; charset=utf-8")


def _changes(app: FastAPI, house: House) -> None:
    @app.post("/v1/jobs/{job_id}/cancel", response_model=answers.Changed)
    async def cancel(job_id: JobId) -> Response:
        return Plain(await house.ask(Cancel(job_id)))

    @app.post("/v1/jobs/{job_id}/hold", response_model=answers.Changed)
    async def hold(job_id: JobId) -> Response:
        return Plain(await house.ask(Hold(job_id)))

    @app.post("/v1/jobs/{job_id}/pause", response_model=answers.Changed)
    async def pause(job_id: JobId) -> Response:
        return Plain(await house.ask(Pause(job_id)))

    @app.post("/v1/jobs/{job_id}/release", response_model=answers.Changed)
    @app.post("/v1/jobs/{job_id}/resume", response_model=answers.Changed)
    async def release(job_id: JobId) -> Response:
        return Plain(await house.ask(Release(job_id)))

    @app.post("/v1/jobs/{job_id}/rerun", status_code=201, response_model=answers.Submitted)
    async def rerun(job_id: JobId, asked: Rerun | None = None) -> Response:
        return Plain(await house.rerun(job_id, asked.request_id if asked else None), 201)


def _around(app: FastAPI, house: House) -> None:
    @app.get("/v1/health", response_model=answers.Health)
    async def health() -> Response:
        return Plain(house.health())  # from what the writer has published: it is not waited for

    @app.get("/v1/nodes", response_model=answers.Nodes)
    async def nodes() -> Response:
        return Plain({"nodes": await house.readers.look(lambda: nodes_json(house.desk, house.link.is_up))})

    @app.get("/v1/policy", response_model=PolicyName)
    async def policy() -> Response:
        return Plain({"policy": house.policy_name})

    @app.put("/v1/policy", response_model=PolicyName)
    async def change_policy(wanted: PolicyName) -> Response:
        return Plain(await house.change_policy(wanted.policy))

    @app.post("/v1/shutdown", response_model=answers.GoingDown)
    async def shutdown(how: Shutdown) -> Response:
        return Plain(await house.shut_down(how.stop_jobs))

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        from weft.control.metrics import CONTENT_TYPE, exposition, seen_now

        seen = await house.readers.look(seen_now, house)
        return Response(await house.readers.aside(exposition, house.store, seen), media_type=CONTENT_TYPE)

    @app.get("/v1/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(resources.files("weft.control").joinpath("docs.html").read_text(encoding="utf-8"))


async def _pieces(house: House, job_id: str, path: Path, offset: int, follow: bool) -> AsyncIterator[bytes]:
    """A log from an offset on; followed, until its job is over and everything is read.

    It is not kept open: a client may take its time.
    """
    while True:
        is_over = job_id not in house.desk.records
        with suppress(OSError, NoFileError):
            while piece := read_piece(path, offset):
                offset += len(piece)
                yield piece
        if is_over or not follow:
            return
        await asyncio.sleep(LOOK_EVERY_S)


async def _say_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WeftError)
    code = next(code for kind, code in CODES if isinstance(error, kind))
    is_array = {"array": True} if isinstance(error, ArrayError) else {}
    return Plain({"error": error.message, "hint": error.hint, **is_array}, code)


async def _say_malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    what = str(first["msg"]).removeprefix("Value error, ")
    message, _, hint = what.partition("\nhint: ")
    said = f"{where}: {message}" if where else message
    return Plain(
        {"error": said[:MOST_SAID], "hint": hint or "weft --help; for programs: /v1/docs"},
        422,
    )


async def _say_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    body = {
        "error": f"{request.method} {request.url.path}: {error.detail}".lower(),
        "hint": "/v1/docs lists what there is",
    }
    return Plain(body, error.status_code, headers)
