"""Another process of the same user at the socket between daemon and coordinator: garbage, impostors, floods."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from box import Attack, Box
from wire import connected, exchanged

from waiting import wait_until
from weft.control.coordinator_link import MOST_CONNECTIONS
from weft.protocol import VERSION
from weft.system.request_limits import REPORT_LINE_BYTES

DEVICE = {"index": 0, "kind": "cpu", "type": "cpu", "name": "mine", "memory_bytes": 1, "cores": [0], "blocked_by": None}
HELLO: dict[str, Any] = {
    "type": "hello",
    "protocol": VERSION,
    "node": "impostor",
    "boot_id": "another",
    "pid": 1,
    "devices": [DEVICE],
    "attempts": [],
}
ENDED = {"type": "report", "serial": 1, "job": "1", "attempt": 1, "generation": 1, "what": "ended", "exit_code": 0}

GARBAGE: dict[str, bytes] = {
    "random bytes": bytes(range(256)) * 100,
    "zero bytes": bytes(100_000) + b"\n",
    "empty lines": b"\n" * 10_000,
    "half a line": b'{"type": "he',
    "a line of 20 MB": b"x" * (REPORT_LINE_BYTES + (4 << 20)) + b"\n",
    "20 MB without an end": b"x" * (REPORT_LINE_BYTES + (4 << 20)),
    "a long line, then a hello": b"x" * (REPORT_LINE_BYTES + 10) + b"\n" + json.dumps(HELLO).encode() + b"\n",
    "lists 100,000 deep": b"[" * 100_000 + b"\n",
    "a request of HTTP": b"GET /v1/health HTTP/1.1\r\nHost: weft\r\n\r\n",
    "text that is not UTF-8": b'{"type": "\xff\xfe"}\n',
    "UTF-16": json.dumps(HELLO).encode("utf-16") + b"\n",
    "two messages in a line": json.dumps(HELLO).encode() * 2 + b"\n",
}
MESSAGES: dict[str, object] = {
    "a number": 7,
    "a list": [HELLO],
    "an object without a type": {"protocol": VERSION},
    "a type that is a list": {"type": ["hello"]},
    "an unknown type": {"type": "please"},
    "a hello of a later protocol": {**HELLO, "protocol": VERSION + 1},
    "a hello of a protocol that is a text": {**HELLO, "protocol": "1"},
    "a hello of an object as protocol": {**HELLO, "protocol": {"a": "x" * 100_000}},
    "a hello without devices": {**HELLO, "devices": None},
    "a hello with devices that are numbers": {**HELLO, "devices": [1, 2]},
    "a hello with half a device": {**HELLO, "devices": [{"index": 0}]},
    "a hello with attempts that are numbers": {**HELLO, "attempts": [1]},
    "a hello with a node that is a list": {**HELLO, "node": []},
    "a hello that is right in every word": HELLO,
    "the end of a job": ENDED,
    "the loss of a job": {**ENDED, "what": "lost", "message": "x" * 100_000},
    "a report without a job": {"type": "report", "serial": 1},
    "a report of a job that is a list": {**ENDED, "job": ["1"]},
    "no devices": {"type": "devices", "devices": []},
    "other devices": {"type": "devices", "devices": [DEVICE]},
    "progress": {"type": "progress", "jobs": {"1": {"attempt": 1, "step": 10**9}}},
    "progress that is a list": {"type": "progress", "jobs": [1]},
    "a measured rate": {"type": "measured", "job": "1", "attempt": 1, "generation": 1, "rate_hz": 1e300},
    "an acknowledgement": {"type": "ack", "serial": 1},
    "an order to leave": {"type": "leave"},
    "an order to run": {"type": "run", "job": "1", "attempt": 1, "generation": 99, "launch": {}},
}
FALSE_DAEMON = """
import json, os, socket, sys
path = sys.argv[1]
os.unlink(path)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
print("bound", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def node_socket(box: Box) -> Path:
    return box.socket.with_name("node.sock")


def node_name(box: Box) -> str:
    return str(box.rest("GET", "/v1/nodes")[1]["nodes"][0]["name"])


def test_garbage_closes_its_own_connection_and_no_other(box: Box, attack: Attack, node_socket: Path) -> None:
    machine = node_name(box)
    for name, sent in GARBAGE.items():
        with attack(f"link: {name}"):
            assert exchanged(node_socket, sent, half_closes=True) == b"", "it is told nothing"
            assert node_name(box) == machine
            assert box.health()["nodes"] == 1


@pytest.mark.parametrize("is_repeated", [False, True], ids=["once", "after a hello"])
def test_a_process_that_is_not_the_coordinator_is_not_listened_to(
    box: Box, attack: Attack, node_socket: Path, is_repeated: bool
) -> None:
    machine, states = node_name(box), [each["state"] for each in box.rest("GET", "/v1/jobs")[1]["jobs"]]
    for name, message in MESSAGES.items():
        before = json.dumps(HELLO).encode() + b"\n" if is_repeated else b""
        with attack(f"link: {name}{' after a hello' if is_repeated else ''}"):
            sent = before + json.dumps(message).encode() + b"\n"
            assert exchanged(node_socket, sent, half_closes=True) == b"", "it is told nothing"
            assert node_name(box) == machine
            assert [each["state"] for each in box.rest("GET", "/v1/jobs")[1]["jobs"]] == states


def test_silent_connections_do_not_pile_up(box: Box, attack: Attack, node_socket: Path) -> None:
    with attack("link: 300 connections that say nothing"):
        lines = [connected(node_socket) for _ in range(300)]
        try:
            for line in lines[:-MOST_CONNECTIONS]:
                assert line.recv(1) == b"", "the oldest are closed"
            job_id = box.submit("--", "true")
            assert box.wait_for(job_id)["state"] == "SUCCEEDED"
        finally:
            for line in lines:
                line.close()
    with attack("link: a connection that says no hello"), connected(node_socket) as line:
        assert line.recv(1) == b""


def test_a_socket_in_the_place_of_the_daemons_is_replaced(box: Box, attack: Attack, node_socket: Path) -> None:
    inside = str(Path(box.says("doctor", "--socket").strip()).with_name("node.sock"))
    with attack("link: another process listens in the place of the daemon"):
        false = box.start(sys.executable, "-c", FALSE_DAEMON, inside, stdin=-1, text=True)
        try:
            assert false.stdout is not None
            assert false.stdout.readline() == "bound\n"
            theirs = node_socket.stat().st_ino
            wait_until(lambda: node_socket.exists() and node_socket.stat().st_ino != theirs, "it is replaced")
            assert exchanged(node_socket, b"{\n") == b"", "the daemon listens there"
        finally:
            false.terminate()
            false.communicate()
        job_id = box.submit("--", "true")
        assert box.wait_for(job_id)["state"] == "SUCCEEDED"
