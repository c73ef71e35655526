"""Oversized and odd submissions: each is refused with a message, or runs; none keeps a later job from starting."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from box import Attack, Box
from wire import answered, request

from weft.client.unix_http import Connection
from weft.system import request_limits as limits

MARGIN_BYTES = 4096
TRUE = {"command": ["true"], "env": {}}
ESCAPES = "\x1b[2J\x1b]0;title\x07\n\r\u202e"

BODIES: dict[str, tuple[object, int, str]] = {
    "an environment of 70 MB": ({**TRUE, "env": {f"V{n}": "x" * 1_000_000 for n in range(70)}}, 413, "body"),
    "one variable of 200 KB": ({**TRUE, "env": {"A": "x" * 200_000}}, 422, '"A" with its name has 200,002 bytes'),
    "a search path that leaves no room for weft's": ({**TRUE, "env": {"PYTHONPATH": "x" * 130_000}}, 422, "PYTHONPATH"),
    "30,000 variables": ({**TRUE, "env": {f"V{n}": "" for n in range(30_000)}}, 422, "20,000 is the most"),
    "an environment of 7 MB": ({**TRUE, "env": {f"V{n}": "x" * 100_000 for n in range(70)}}, 422, "together"),
    "a word of 200 KB": ({"command": ["true", "x" * 200_000], "env": {}}, 422, "word 2 of the command"),
    "200,000 words": ({"command": ["true"] * 200_000, "env": {}}, 422, "100,000 is the most"),
    "words of 7 MB": ({"command": ["true", *["x" * 100_000] * 70], "env": {}}, 422, "together"),
    "a zero byte in a word": ({**TRUE, "command": ["true", "a\0b"]}, 422, "zero bytes"),
    "a zero byte in a value": ({**TRUE, "env": {"A": "a\0b"}}, 422, "zero bytes"),
    "a zero byte in a name": ({**TRUE, "env": {"A\0B": "c"}}, 422, "zero bytes"),
    "a zero byte in the folder": ({**TRUE, "cwd": "/a\0b"}, 422, "zero bytes"),
    "an equals sign in a name": ({**TRUE, "env": {"A=B": "c"}}, 422, "no name of a variable"),
    "a variable without a name": ({**TRUE, "env": {"": "c"}}, 422, "no name of a variable"),
    "a value that is no text": ({**TRUE, "env": {"A": 7}}, 422, "env"),
    "a lone surrogate in a word": ({**TRUE, "command": ["true", "\ud800"]}, 422, "lone surrogate"),
    "a lone surrogate in a name": ({**TRUE, "env": {"\ud800": "c"}}, 422, "lone surrogate"),
    "escape sequences in the name": ({**TRUE, "name": ESCAPES}, 422, "printable"),
    "a text direction mark in the name": ({**TRUE, "name": "a\u202eb"}, 422, "printable"),
    "a name of 300 letters": ({**TRUE, "name": "x" * 300}, 422, "printable"),
    "a line break in the tenant": ({**TRUE, "tenant": "a\nb"}, 422, "printable"),
    "escape sequences in a device type": ({**TRUE, "types": [ESCAPES]}, 422, "printable"),
    "1,000 device types": ({**TRUE, "types": ["a"] * 1_000}, 422, "types"),
    "a folder of 5,000 bytes": ({**TRUE, "cwd": "/x" * 2_500}, 422, "cwd"),
    "a folder name of 300 bytes": ({**TRUE, "cwd": f"/{'x' * 300}"}, 422, "cwd"),
    "a folder that is not absolute": ({**TRUE, "cwd": "../.."}, 422, "begins with /"),
    "after 20,000 jobs": ({**TRUE, "after": ["1"] * 20_000}, 422, "after"),
    "an array of 10,000,000": ({**TRUE, "array": "0-9999999"}, 422, "10,000 is the most"),
    "10,000 elements of a large command": ({"command": ["true", "x" * 60_000], "array": "1-10000"}, 400, "array"),
    "an array index without end": ({**TRUE, "array": "9" * 5_000}, 422, "the array"),
    "a list for a job": ([TRUE], 422, ""),
    "nothing for a job": (None, 422, ""),
    "a field that is not there": ({**TRUE, "gpu": 1}, 422, "gpu"),
    "devices by a number of 4,000 digits": (b'{"command": ["true"], "gpus": 1%s}' % (b"0" * 4_000), 422, "gpus"),
    "devices by a number of 9,000 digits": (b'{"command": ["true"], "gpus": 1%s}' % (b"0" * 9_000), 400, ""),
    "a time that is no number": (b'{"command": ["true"], "time_s": NaN}', 422, "time_s"),
    "a time without end": (b'{"command": ["true"], "time_s": 1e999}', 422, "time_s"),
    "lists 100,000 deep": (b"[" * 100_000, 400, ""),
    "objects 100,000 deep": (b'{"command":' * 100_000, 400, ""),
    "half a body": (b'{"command": ["tr', 422, ""),
    "no text at all": (bytes(range(128, 256)) * 100, 400, ""),
}  # fmt: skip
TARGETS: dict[str, tuple[str, int]] = {
    "a negative limit": ("/v1/history?limit=-1", 422),
    "a limit of 30 digits": (f"/v1/history?limit={10**30}", 422),
    "a limit in other digits": ("/v1/history?limit=%D9%A1", 422),
    "a limit that is a fraction": ("/v1/history?limit=0.5", 422),
    "a state of 10,000 letters": (f"/v1/jobs?state={'x' * 10_000}", 422),
    "a wait of NaN": ("/v1/jobs/1/wait?timeout_s=nan", 422),
    "a wait of -1": ("/v1/jobs/1/wait?timeout_s=-1", 422),
    "a job id with a zero byte": ("/v1/jobs/%00", 422),
    "a job id with a line break": ("/v1/jobs/1%0a", 422),
    "a job id in other digits": ("/v1/jobs/%D9%A1", 422),
    "a job id of 10,000 digits": (f"/v1/jobs/{'1' * 10_000}", 422),
    "a job id that climbs": ("/v1/jobs/..%2f..%2fetc", 404),
    "an offset beyond every file": (f"/v1/jobs/1/logs?offset={2**53}", 200),
    "an offset of 40 digits": (f"/v1/jobs/1/logs?offset={10**40}", 422),
    "a task of -1": ("/v1/jobs/1/logs?task=-1", 422),
    "half an escape in the query": ("/v1/jobs?name=%f", 200),
}


def test_what_cannot_run_is_refused_with_a_message_and_a_hint(box: Box, attack: Attack) -> None:
    path = box.socket
    for name, (body, status, message) in BODIES.items():
        with attack(f"submissions: {name}"):
            sent = body if isinstance(body, bytes) else json.dumps(body).encode()
            code, answer = Connection(str(path)).request("POST", "/v1/jobs", sent, 60.0)
            problem = json.loads(answer)
            assert (code, problem.keys()) == (status, {"error", "hint"}), problem
            assert message in problem["error"]
            assert problem["hint"]
            assert len(answer) < 2_000
    with attack("submissions: a policy with a zero byte"):
        assert box.rest("PUT", "/v1/policy", {"policy": "/a\0b.py:Mine"})[0] == 400


def test_odd_questions_are_refused_or_answered(box: Box, attack: Attack) -> None:
    path = box.socket
    for name, (target, status) in TARGETS.items():
        with attack(f"questions: {name}"):
            assert answered(path, request("GET", target))[0] == status


def test_a_body_is_refused_before_all_of_it_is_there(box: Box, attack: Attack) -> None:
    path = box.socket
    most = limits.body_bytes(limits.execve_bytes())
    with attack("submissions: a body that claims 10^18 bytes"):
        claims = request("POST", "/v1/jobs", b"{", [f"Content-Length: {10**18}"])
        assert answered(path, claims, timeout_s=5.0)[0] == 413
    with attack("submissions: chunks without end"):
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        chunks = request("POST", "/v1/jobs", b"", ["Transfer-Encoding: chunked"]) + chunk * (most // (1 << 20) + 2)
        assert answered(path, chunks, timeout_s=5.0)[0] == 413


def largest(text: str, box: Box) -> dict[str, Any]:
    """A job with as many arguments and variables as are admitted, of this text."""
    program = "import os, sys; print(len(sys.argv), sum(name[:1] == 'V' for name in os.environ))"
    command, env = [sys.executable, "-c", program], {"PATH": box.env["PATH"]}
    room_bytes = limits.execve_bytes() - limits.RESERVED_BYTES
    for number in range(10_000):
        more = text * (100_000 // len(text.encode("utf-8", "surrogateescape")))
        try:
            limits.check_execve([*command, more], {**env, f"V{number}": more}, room_bytes + limits.RESERVED_BYTES)
        except Exception:  # noqa: BLE001 - it is full
            break
        command.append(more)
        env[f"V{number}"] = more
    return {"command": command, "env": env}


@pytest.mark.parametrize("text", ["x", "\x01", "\udcff", "é"])
def test_the_largest_job_that_is_admitted_runs(box: Box, attack: Attack, text: str) -> None:
    with attack(f"submissions: the largest job, of {text!a}"):
        asked = largest(text, box)
        status, answer = box.rest("POST", "/v1/jobs", asked)
        assert status == 201, answer
        assert box.wait_for(answer["id"])["state"] == "SUCCEEDED"
        given = len(asked["command"]) - 2, len(asked["env"]) - 1
        assert box.log(answer["id"]).split() == [str(given[0]), str(given[1])]


def test_bytes_that_are_no_text_survive(box: Box, attack: Attack) -> None:
    with attack("submissions: an environment that is not UTF-8"):
        program = "import os, sys; print(os.environb[b'\\xfe'], os.fsencode(sys.argv[1]))"
        asked = {"command": [sys.executable, "-c", program, "\udc80"], "env": {"\udcfe": "\udcff=", "A": "b"}}
        status, answer = box.rest("POST", "/v1/jobs", asked)
        assert status == 201, answer
        assert box.wait_for(answer["id"])["state"] == "SUCCEEDED"
        assert box.log(answer["id"]) == "b'\\xff=' b'\\x80'\n"


def test_listings_do_not_repeat_escape_sequences(box: Box, attack: Attack) -> None:
    with attack("submissions: escape sequences in the command, the folder and the message of its end"):
        status, answer = box.rest("POST", "/v1/jobs", {"command": [ESCAPES], "env": {}, "cwd": f"/{ESCAPES}"})
        assert status == 201
        box.wait_for(answer["id"])
        for words in (("status", answer["id"]), ("why", answer["id"]), ("history",), ("history", answer["id"])):
            said = box.says(*words)
            assert not set("\x1b\x07\r\u202e") & set(said), said
    with attack("submissions: escape sequences in a name, by weft submit"):
        done = box.weft("submit", "--name", ESCAPES, "--", "true")
        assert done.returncode == 2
        assert "printable" in done.stderr
        assert "hint: " in done.stderr
        assert "\x1b" not in done.stderr


REPLACED = {
    "a fifo": "os.mkfifo(log)",
    "a folder": "os.mkdir(log)",
    "a link to an endless device": "os.symlink('/dev/zero', log)",
    "a link to itself": "os.symlink(log, log)",
    "a socket": "os.chdir(os.path.dirname(log)); socket.socket(socket.AF_UNIX).bind('task-0.log')",
    "a file of 1 TB": "os.close(os.open(log, os.O_CREAT | os.O_RDWR)); os.truncate(log, 2**40)",
}


def test_a_job_that_replaces_its_log_does_not_stall_the_daemon(box: Box, attack: Attack) -> None:
    path = box.socket
    for name, replacing in REPLACED.items():
        with attack(f"logs: {name} in the place of a log"):
            find = "log = os.path.expandvars('$WEFT_HOME/jobs/$WEFT_JOB_ID/task-0.log')"
            job_id = box.submit_python(f"import os, socket; {find}; os.unlink(log); {replacing}")
            assert box.wait_for(job_id)["state"] == "SUCCEEDED"
            at_the_end = request("GET", f"/v1/jobs/{job_id}/logs?offset={2**40}")
            assert answered(path, at_the_end)[0] in (200, 404, 409)
            said = box.weft("logs", job_id) if "file" not in name else None
            assert said is None or "Traceback" not in said.stderr


POISON: dict[str, str] = {
    "an environment of 70 MB": json.dumps({"A": "x" * (70 << 20)}),
    "an environment that is no JSON": "{",
    "an environment of lists": json.dumps([[]]),
    "a variable that is a number": json.dumps({"A": 7}),
}


def test_a_poisoned_order_of_an_old_database_fails_its_own_job_and_no_other(box: Box, attack: Attack) -> None:
    held = {}
    for name in POISON:
        status, answer = box.rest("POST", "/v1/jobs", {"command": ["true"], "env": {"POISON": name}, "hold": True})
        assert status == 201, answer
        held[name] = answer["id"]
    healthy = box.submit("--hold", "--", "true")
    box.says("down")
    _poison(box.home.database, held)
    box.up()
    for name, job_id in held.items():
        with attack(f"orders: {name}"):
            box.says("release", job_id)
            job = box.wait_for(job_id)
            assert job["state"] == "FAILED", job
            assert "cannot be started: " in job["reason"]
    with attack("orders: a healthy job after all of these"):
        box.says("release", healthy)
        assert box.wait_for(healthy)["state"] == "SUCCEEDED"


def _poison(path: Path, held: dict[str, str]) -> None:
    database = sqlite3.connect(path)
    with database:
        for name, job_id in held.items():
            of_the_job = "SELECT environment FROM jobs WHERE id = ?"
            (number,) = database.execute(of_the_job, (job_id,)).fetchone()
            database.execute("UPDATE environments SET body = ? WHERE id = ?", (POISON[name], number))
    database.close()
