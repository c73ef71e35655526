"""A job's weight, from the command line to the core and back to whoever asks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from weft.cli.job_options import request_from_options
from weft.cli.main import weft as command
from weft.cli.verbs.job_details import _lines
from weft.control.api.request_schemas import JobRequest
from weft.control.loop.job_record import spec_for
from weft.core.errors import InputError
from weft.core.serialization import plain_spec, spec_of

SAID: dict[str, Any] = {"no_requeue": False, "no_share": False, "no_migrate": False, "hold": False}
REQUEST: dict[str, Any] = {"gpus": 1, "tenant": "default", "class": "auto", "name": ""}


def test_a_weight_is_sent_only_if_it_was_said() -> None:
    assert request_from_options(("true",), **SAID, weight=2.5)["weight"] == 2.5
    assert "weight" not in request_from_options(("true",), **SAID, weight=None)


@pytest.mark.parametrize("weight", [0.0, -1.0, 0.009, 101.0, math.inf, math.nan])
def test_a_weight_out_of_bounds_is_refused_where_it_is_said_and_where_it_is_heard(weight: float) -> None:
    with pytest.raises(InputError, match=r"is not between 0\.01 and 100"):
        request_from_options(("true",), **SAID, weight=weight)
    with pytest.raises(ValidationError):
        JobRequest(command=["true"], weight=weight)


@pytest.mark.parametrize(
    ("said", "complaint"), [("heavy", "'heavy' is not a valid float"), ("0", "a weight of 0 is not")]
)
def test_a_wrong_weight_is_told_in_words(said: str, complaint: str) -> None:
    done = CliRunner().invoke(command, ["submit", "--weight", said, "--", "true"])
    assert done.exit_code != 0
    assert complaint in done.output + str(done.exception)


def test_the_core_hears_of_it_and_what_was_written_down_before_there_were_weights_weighs_1() -> None:
    assert spec_for("1", {**REQUEST, "weight": 3.0}, {}).weight == 3.0
    assert spec_for("1", REQUEST, {}).weight == 1.0
    assert JobRequest(command=["true"]).weight == 1.0


def test_it_is_in_the_log_if_it_is_not_1() -> None:
    heavy = spec_for("1", {**REQUEST, "weight": 3.0}, {})
    assert spec_of(plain_spec(heavy)) == heavy
    assert "weight" not in plain_spec(spec_for("1", REQUEST, {}))


@pytest.mark.parametrize(("weight", "shown"), [(2.5, "2.5"), (1.0, "")])
def test_the_status_shows_a_weight_that_is_not_everybodys(weight: float, shown: str) -> None:
    job = dict.fromkeys(("exit_code", "attempt", "steps", "submitted_at", "started_at", "finished_at"))
    words = {"id": "1", "name": "", "state": "PENDING", "reason": "", "tenant": "t", "class": "auto", "cwd": "/"}
    lines = dict(_lines({**job, **words, "command": ["true"], "devices": [], "weight": weight}))
    assert lines["weight"] == shown
