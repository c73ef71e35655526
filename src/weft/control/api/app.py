"""REST under /v1: thin. Everything is decided by the control state, and answered once it is on disk."""

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
from weft.control.api import response_schemas as schemas
from weft.control.api.connections import BodyLimits
from weft.control.api.explain import events, why_ended, why_live, with_estimate
from weft.control.api.listings import MOST_A_PAGE, PageQuery, expanded
from weft.control.api.request_schemas import (
    ID,
    NUMBER,
    ROOM_BYTES,
    JobId,
    JobRequest,
    PolicyName,
    Reference,
    Rerun,
    Shutdown,
)
from weft.control.api.views import Json, nodes_json
from weft.control.loop.inputs import Cancel, Hold, PauseByOwner, Release, Submit
from weft.control.loop.job_state import JobState
from weft.control.loop.requests import ArrayIdError, ConflictError, NotFoundError
from weft.control.loop.writer import LeavingError
from weft.control.service import ControlService
from weft.control.store.log_store import StoreError
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
ENDED = (JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED)
MOST_SAID = 500
"""Letters of a refusal: it repeats what was sent."""
LOOK_EVERY_S = 0.1
Limit = Annotated[int, Query(ge=1, le=MOST_A_PAGE, description="of jobs on a page")]
Timeout = Annotated[float, Query(ge=0, le=3600, allow_inf_nan=False)]
MOST_NAMED = 1_000
"""Ids in one request; the number of an array is one of them."""
Cursor = Annotated[str | None, Query(pattern=ID, description="next_cursor of the page before")]
PROBLEMS: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": text}
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


def make_app(service: ControlService) -> FastAPI:
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
    app.add_middleware(BodyLimits, most_bytes=body_bytes(ROOM_BYTES))
    app.add_exception_handler(WeftError, _say_error)
    app.add_exception_handler(RequestValidationError, _say_malformed)
    app.add_exception_handler(HTTPException, _say_http)
    _jobs(app, service)
    _one_job(app, service)
    _changes(app, service)
    _around(app, service)
    return app


def _jobs(app: FastAPI, service: ControlService) -> None:
    @app.post("/v1/jobs", status_code=201, response_model=schemas.SubmittedModel)
    async def submit(request: JobRequest) -> Response:
        asked = request.complete()
        if request.begin_at is not None:  # by the clock on the wall; the daemon's own goes on evenly
            asked["begin_at"] = service.clock.peek() + (request.begin_at - time.time())
        return Plain(await service.ask(Submit(asked, request.environment, request.request_id)), 201)

    @app.get("/v1/jobs", response_model=schemas.Jobs)
    async def jobs(
        all: bool = False,  # noqa: A002 - as it is called in the query
        state: JobState | None = None,
        name: Annotated[str | None, Query(max_length=200)] = None,
        tenant: Annotated[str | None, Query(max_length=200)] = None,
        prefix: Annotated[str | None, Query(pattern="^[0-9_]{1,30}$", description="of its id")] = None,
        limit: Limit = MOST_A_PAGE,
        cursor: Cursor = None,
    ) -> Response:
        return Encoded(await service.page(PageQuery(state, name, tenant, prefix, all, cursor, limit)))

    @app.get("/v1/wait", response_model=schemas.Waited)
    async def wait_for(
        id: Annotated[list[Reference], Query(min_length=1, max_length=MOST_NAMED)],  # noqa: A002
        any: bool = False,  # noqa: A002
        timeout_s: Timeout = 30.0,
    ) -> Response:
        return Plain(await service.wait_for(id, any, timeout_s))

    @app.get("/v1/ids", response_model=schemas.Changed)
    async def ids(id: Annotated[list[Reference], Query(min_length=1, max_length=MOST_NAMED)]) -> Response:  # noqa: A002
        return Plain({"ids": await service.readers.aside(expanded, service.store, id)})

    @app.get("/v1/arrays/{array}", response_model=schemas.Array)
    async def array(array: Annotated[str, InPath(pattern=NUMBER)]) -> Response:
        return Plain(await service.array(array))

    @app.get("/v1/history", response_model=schemas.Jobs)
    async def history(limit: Limit = 100, cursor: Cursor = None) -> Response:
        return Encoded(await service.history(limit, cursor))


def _one_job(app: FastAPI, service: ControlService) -> None:
    @app.get("/v1/jobs/{job_id}", response_model=schemas.OneJob)
    async def job(job_id: JobId) -> Response:
        def look() -> Json:
            return {**service.job(job_id), "env": dict.fromkeys(service.variables(job_id), "(hidden)")}

        return Plain(await service.readers.look(look))

    @app.get("/v1/jobs/{job_id}/wait", response_model=schemas.JobModel)
    async def wait(
        job_id: JobId,
        timeout_s: Timeout = 30.0,
        state_not: Annotated[str | None, Query(max_length=20)] = None,
    ) -> Response:
        def is_so(state: str) -> bool:
            return state in ENDED or (state_not is not None and state != state_not)

        return Plain(await service.wait_until(job_id, is_so, timeout_s))

    @app.get("/v1/jobs/{job_id}/why", response_model=schemas.Why)
    async def why(job_id: JobId) -> Response:
        def look() -> Json:
            if job_id not in service.control.records:
                return why_ended(service.row(job_id), service.store)
            now = service.clock.peek()
            return why_live(service.control, service.store, service.views, job_id, now, service.new_policy)

        return Plain(await with_estimate(await service.readers.look(look)))

    @app.get("/v1/jobs/{job_id}/history", response_model=schemas.Happenings)
    async def history_of(job_id: JobId) -> Response:
        await service.readers.look(service.check_known, job_id)
        return Plain({"events": await service.readers.aside(lambda: events(service.store.all("log_of_job", job_id)))})

    @app.get("/v1/jobs/{job_id}/logs", response_class=StreamingResponse)
    async def logs(
        job_id: JobId,
        task: Annotated[int, Query(ge=0, le=10_000)] = 0,
        stream: Annotated[str, Query(pattern="^(out|err)$")] = "out",
        offset: Annotated[int, Query(ge=0, le=2**53)] = 0,
        follow: bool = False,
        tail: Annotated[int | None, Query(ge=0, le=MOST_LINES, description="the last lines alone")] = None,
    ) -> Response:
        await service.readers.look(service.check_known, job_id)
        path = service.home.log(job_id, task, split=stream == "err")
        try:
            if tail is not None:
                offset = max(offset, await service.readers.aside(last_lines_at, path, tail))
            read_piece(path, offset)
        except OSError as error:
            if not (follow and job_id in service.control.records):
                message = f"task {task} of job {job_id} has written nothing to {stream}"
                raise NotFoundError(message, "has it started?") from error
        return StreamingResponse(_pieces(service, job_id, path, offset, follow), media_type="text/plain; charset=utf-8")


def _changes(app: FastAPI, service: ControlService) -> None:
    @app.post("/v1/jobs/{job_id}/cancel", response_model=schemas.Changed)
    async def cancel(job_id: JobId) -> Response:
        return Plain(await service.ask(Cancel(job_id)))

    @app.post("/v1/jobs/{job_id}/hold", response_model=schemas.Changed)
    async def hold(job_id: JobId) -> Response:
        return Plain(await service.ask(Hold(job_id)))

    @app.post("/v1/jobs/{job_id}/pause", response_model=schemas.Changed)
    async def pause(job_id: JobId) -> Response:
        return Plain(await service.ask(PauseByOwner(job_id)))

    @app.post("/v1/jobs/{job_id}/release", response_model=schemas.Changed)
    @app.post("/v1/jobs/{job_id}/resume", response_model=schemas.Changed)
    async def release(job_id: JobId) -> Response:
        return Plain(await service.ask(Release(job_id)))

    @app.post("/v1/jobs/{job_id}/rerun", status_code=201, response_model=schemas.SubmittedModel)
    async def rerun(job_id: JobId, asked: Rerun | None = None) -> Response:
        return Plain(await service.rerun(job_id, asked.request_id if asked else None), 201)


def _around(app: FastAPI, service: ControlService) -> None:
    @app.get("/v1/health", response_model=schemas.Health)
    async def health() -> Response:
        return Plain(service.health())  # from what the writer has published: it is not waited for

    @app.get("/v1/nodes", response_model=schemas.Nodes)
    async def nodes() -> Response:
        return Plain({"nodes": await service.readers.look(lambda: nodes_json(service.control, service.link.is_up))})

    @app.get("/v1/policy", response_model=PolicyName)
    async def policy() -> Response:
        return Plain({"policy": service.policy_name})

    @app.put("/v1/policy", response_model=PolicyName)
    async def change_policy(wanted: PolicyName) -> Response:
        return Plain(await service.change_policy(wanted.policy))

    @app.post("/v1/shutdown", response_model=schemas.GoingDown)
    async def shutdown(how: Shutdown) -> Response:
        return Plain(await service.shut_down(how.stop_jobs))

    @app.get("/metrics", include_in_schema=False)
    async def metrics() -> Response:
        from weft.control.api.prometheus import CONTENT_TYPE, exposition, seen_now

        seen = await service.readers.look(seen_now, service)
        return Response(await service.readers.aside(exposition, service.store, seen), media_type=CONTENT_TYPE)

    @app.get("/v1/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(resources.files("weft.control.api").joinpath("docs.html").read_text(encoding="utf-8"))


async def _pieces(service: ControlService, job_id: str, path: Path, offset: int, follow: bool) -> AsyncIterator[bytes]:
    """A log from an offset on; followed, until its job is over and everything is read.

    It is not kept open: a client may take its time.
    """
    while True:
        is_over = job_id not in service.control.records
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
    is_array = {"array": True} if isinstance(error, ArrayIdError) else {}
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
