"""Limits of what may be asked for: the same for the client and the daemon, and what they admit can be sent and run."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest
from msgspec.structs import replace
from office import Open, request
from pydantic import ValidationError

from weft.client.job_request import job_request
from weft.control.api.request_schemas import JobRequest
from weft.control.loop import requests
from weft.control.loop.dispatch import run_order
from weft.control.loop.inputs import AttemptReport
from weft.control.loop.job_record import JobRecord
from weft.core.errors import InputError
from weft.protocol import SeatOrder, plain
from weft.system import request_limits as limits
from weft.system.json_lines import encoded

LARGE = "x" * limits.STRING_BYTES

REFUSED: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "a large word": (["true", LARGE], {}, "word 2 of the command has 131,072 bytes"),
    "many words": (["true"] * (limits.WORDS + 1), {}, "100,000 is the most"),
    "no program": (["", "a"], {}, "names no program"),
    "a large variable": (["true"], {"env": {"A": LARGE}}, 'the variable "A" with its name has 131,074 bytes'),
    "many variables": (["true"], {"env": {f"V{n}": "" for n in range(limits.VARIABLES + 1)}}, "20,000 is the most"),
    "a zero byte": (["true", "\0"], {}, "zero bytes"),
    "a name with =": (["true"], {"env": {"A=": ""}}, 'is no name of a variable'),
    "a lone surrogate": (["\ud800"], {}, "lone surrogate"),
    "all together": (["true", *[LARGE[:-1]] * 49], {"env": {}}, "together"),
    "a long folder": (["true"], {"cwd": "/x" * 2_048}, "4,095 in all"),
    "a long folder name": (["true"], {"cwd": f"/{'é' * 128}"}, "256 in its longest name"),
    "a name with a line break": (["true"], {"name": "a\nb"}, "printable"),
    "a tenant with an escape": (["true"], {"tenant": "\x1b[1m"}, "printable"),
    "a type with an escape": (["true"], {"types": ["\x1b[1m"]}, "printable"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_client_and_daemon_refuse_the_same_with_the_same_words(case: str) -> None:
    command, options, message = REFUSED[case]
    with pytest.raises(InputError) as by_client:
        job_request(command, None, {"env": {}, **options})  # type: ignore[typeddict-item]
    assert message in by_client.value.message
    with pytest.raises(ValidationError) as by_daemon:
        JobRequest(command=command, **{"env": {}, **options})
    if case != "all together":  # of which the daemon knows how much there really is
        assert by_client.value.message in str(by_daemon.value)


def full(text: str, room_bytes: int) -> tuple[list[str], dict[str, str]]:
    """As many words and variables of this text as are admitted."""
    word = text * ((limits.STRING_BYTES - 10) // len(text.encode("utf-8", "surrogateescape")))
    words, env = ["true"], dict[str, str]()
    while True:
        try:
            limits.check_execve([*words, word], {**env, f"V{len(env)}": word}, room_bytes)
        except InputError:
            return words, env
        words.append(word)
        env[f"V{len(env)}"] = word


@pytest.mark.parametrize("text", ["x", "\x01", "\udcff", "é", '"', "\U0001f9f5"])
def test_the_largest_job_fits_in_one_line_however_its_text_is_written(text: str) -> None:
    words, env = full(text, limits.EXECVE_BYTES)
    limits.check_command(words)
    limits.check_environment(env)
    asked = {**request().request, "command": words, "cwd": "/" + "\x01" * (limits.PATH_BYTES - 1)}
    record = JobRecord("1_1", 1, 1, asked, 1, 0.0)
    order = run_order(record, 2**53, list(range(10_000)), SeatOrder(guest=True, lane=2**53))
    filled = replace(order, launch=replace(order.launch, env=env, strict=True))
    line = encoded(plain(filled), limits.ORDER_LINE_BYTES)
    assert len(line) > limits.EXECVE_BYTES // 2


def test_the_kernel_accepts_what_is_admitted() -> None:
    words, env = full("x", limits.execve_bytes())
    reserved = "x" * (limits.RESERVED_BYTES - 4096)
    done = subprocess.run(words, env={**env, "PATH": os.environ["PATH"], "OF_WEFT": reserved}, check=False)
    assert done.returncode == 0


def test_what_a_job_may_come_after_is_bounded(office: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "AWAITED", 50)
    monkeypatch.setattr(limits, "ARRAY_BYTES", 20_000)
    made = office(1)
    made.submit(array="1-30")
    made.submit(array="1-20", after=["1"])
    assert made.reason("2_1").startswith("starts once 1_1, 1_10, ")
    assert "and 10 more has succeeded" in made.reason("2_1")
    with pytest.raises(InputError, match="too large for one array"):
        made.submit(array="1-100", after=["1"])
    made.submit(array="1-30")
    with pytest.raises(InputError, match="more than 10,000 jobs"):
        made.submit(after=["1", "3"])


def test_an_order_that_cannot_be_sent_ends_its_job_without_another_attempt(office: Open) -> None:
    made = office(1)
    (job_id,) = made.submit(retries=3)
    made.instant(AttemptReport(job_id, 1, "refused", {"message": "it is too large"}))
    row = made.row(job_id)
    assert (row["state"], row["reason"]) == ("FAILED", "cannot be started: it is too large")
