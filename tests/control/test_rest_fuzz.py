"""Whatever is asked of the REST API, it answers as its OpenAPI page says, and never with a 5xx."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from office import MACHINE, devices
from rest import Served, served
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks as promised

from waiting import PATIENCE_S
from weft.control.api.app import make_app
from weft.control.loop.inputs import AttemptReport, NodeConnected

CHECKS = [
    not_a_server_error,
    promised.status_code_conformance,
    promised.content_type_conformance,
    promised.response_headers_conformance,
    promised.response_schema_conformance,
]
EXPLORE = int(os.environ.get("EXPLORE", "0"))
KNOWN = ("1", "2", "3", "4", "4_2", "5", "9")


def schema_of(weft: Served) -> Any:
    """Ids are mostly of jobs that are there; nobody waits for long."""
    schema = schemathesis.openapi.from_url(f"{weft.url}/v1/openapi.json")

    @schema.hook("map_path_parameters")
    def of_a_job(context: Any, path_parameters: dict[str, Any]) -> dict[str, Any]:
        wanted = str((path_parameters or {}).get("job_id", ""))
        if wanted and len(wanted) % 4:
            return {**path_parameters, "job_id": KNOWN[sum(map(ord, wanted)) % len(KNOWN)]}
        return path_parameters

    @schema.hook("map_query")
    def at_once(context: Any, query: dict[str, Any]) -> dict[str, Any]:
        path = context.operation.path
        if path.endswith("/wait"):
            return {**(query or {}), "timeout_s": 0.01}
        return {**(query or {}), "follow": "false"} if path.endswith("/logs") else query

    return schema


@pytest.fixture(scope="module")
def nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """No coordinator has ever come."""
    with served(tmp_path_factory.mktemp("nobody")) as weft:
        yield schema_of(weft)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A node with four devices: one job is over, some run, some are paused, some wait."""
    folder: Path = tmp_path_factory.mktemp("busy")
    with served(folder, "tiresias-l:thresholds=0.001") as weft:
        weft.tell(NodeConnected(MACHINE, devices(4)))
        for asked in ({}, {"gpus": 3}, {"retries": 1}, {"array": "1-3%2"}, {"after": ["2"]}):
            assert weft.ask("POST", "/v1/jobs", {"command": ["true"], **asked})[0] == 201
        for job_id in ("1", "2", "3", "4_1"):
            weft.tell(AttemptReport(job_id, 1, "started", {"pids": [7]}))
        weft.tell(AttemptReport("1", 1, "ended", {"exit_code": 0}))
        (folder / "jobs" / "2").mkdir(parents=True)
        (folder / "jobs" / "2" / "task-0.log").write_text("step 1\n")
        yield schema_of(weft)


STEADY = settings(
    max_examples=30 * max(1, EXPLORE),
    derandomize=not EXPLORE,
    database=None,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in make_app(None).openapi()["paths"].items()  # type: ignore[arg-type]
    for method in methods
]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_node_every_answer_is_as_promised(nobody: Any, operation: str) -> None:
    method, path = operation.split()
    ask_anything(nobody[path][method])


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "shutdown" not in one])
def test_beside_jobs_every_answer_is_as_promised(busy: Any, operation: str) -> None:
    method, path = operation.split()
    ask_anything(busy[path][method])


def ask_anything(operation: Any) -> None:
    well_formed = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    malformed = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

    @given(case=well_formed | malformed)
    @STEADY
    def ask(case: Any) -> None:
        response = case.call(timeout=PATIENCE_S)
        case.validate_response(response, checks=CHECKS)
        if response.status_code >= 400:
            problem = response.json()
            assert problem.keys() - {"array"} == {"error", "hint"}
            assert problem["error"]
            assert problem["hint"]

    ask()
