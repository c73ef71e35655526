"""Too many connections, slow ones, and bytes that are no HTTP, at a daemon that may open 1,024 files."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from box import SETTINGS, Attack, Box
from wire import answered, connected, exchanged, request

from waiting import wait_until

FLOOD = """
import socket, sys, time
path, count, said = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
lines = []
for number in range(count):
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)  # waits while the queue of connections is full
    line.settimeout(60)
    try:
        line.sendall(said)
    except OSError:
        pass  # turned away
    lines.append(line)
print("open", flush=True)
sys.stdin.read()
"""
STORM = """
import socket, sys
path, count, said = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
for number in range(count):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.settimeout(60)
        try:
            line.sendall(said)
        except OSError:
            pass
"""
AT_ONCE = 400
WAIT = "GET /v1/jobs/1/wait?timeout_s=3600 HTTP/1.1\r\nHost: weft\r\n\r\n"
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: weft\r\n\r\n"
POST = "POST /v1/jobs HTTP/1.1\r\nHost: weft\r\n"

NO_HTTP: dict[str, bytes] = {
    "random bytes": bytes(range(256)) * 40,
    "nothing but line ends": b"\r\n" * 10_000,
    "a request of HTTP/0.9": b"GET /v1/health\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "the hello of TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "5,000 headers": request("GET", "/v1/health", b"", [f"X-{n}: y" for n in range(5_000)]),
    "a header of 1 MB": request("GET", "/v1/health", b"", ["X: " + "y" * (1 << 20)]),
    "a target of 100 KB": request("GET", "/v1/" + "x" * 100_000),
    "a negative length": request("POST", "/v1/jobs", b"{}", ["Content-Length: -1"]),
    "two lengths": request("POST", "/v1/jobs", b"{}", ["Content-Length: 2", "Content-Length: 3"]),
    "a length in other digits": request("POST", "/v1/jobs", b"{}", ["Content-Length: ١"]),
    "a chunk of no size": request("POST", "/v1/jobs", b"zz\r\n{}\r\n", ["Transfer-Encoding: chunked"]),
    "a chunk of 2^80 bytes": request("POST", "/v1/jobs", b"f" * 20 + b"\r\n{}", ["Transfer-Encoding: chunked"]),
    "an unknown transfer coding": request("POST", "/v1/jobs", b"{}", ["Transfer-Encoding: gzip"]),
    "a zero byte in a header": request("GET", "/v1/health", b"", ["X: a\0b"]),
    "a header without a name": request("GET", "/v1/health", b"", [": b"]),
    "a folded header": request("GET", "/v1/health", b"", ["X: a", " b"]),
    "no host": b"GET /v1/health HTTP/1.1\r\n\r\n",
    "a method that is not there": request("BREW", "/v1/health"),
    "a method of 10,000 letters": request("X" * 10_000, "/v1/health"),
    "a tunnel": request("CONNECT", "example.org:80"),
    "an upgrade to web sockets": request("GET", "/v1/health", b"", ["Upgrade: websocket", "Connection: upgrade"]),
    "a body that a GET must not have": request("GET", "/v1/health", b"x" * 100_000),
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    """A daemon and a coordinator that may open 1,024 files each, and two bystanders."""
    box = Box(tmp_path_factory.mktemp("hostile"), settings=SETTINGS)

    def start() -> None:
        words = (sys.executable, "-m", "weft.cli.main", "up", "--devices", "cpu=4", "--policy", "fifo")
        started = box.run("prlimit", "--nofile=1024:1024", *words)
        assert started.returncode == 0, started.stderr
        wait_until(lambda: bool(box.health().get("nodes")), "the coordinator has said hello")
        box.remember_processes()

    with box.running(start):
        yield box


@pytest.fixture
def inside(box: Box) -> str:
    """The daemon's socket, for processes in the sandbox."""
    return box.says("doctor", "--socket").strip()


@contextmanager
def flooded(box: Box, path: str, said: str, times: int = 3) -> Iterator[list[subprocess.Popen[str]]]:
    """So many times 400 connections, each of which says this and stays."""
    with ExitStack() as stack:
        floods: list[subprocess.Popen[str]] = []
        for _ in range(times):
            words = (sys.executable, "-c", FLOOD, path, str(AT_ONCE), said)
            floods.append(stack.enter_context(box.start(*words, stdin=subprocess.PIPE, text=True)))
        try:
            for flood in floods:
                assert flood.stdout is not None
                assert flood.stdout.readline() == "open\n"
            yield floods
        finally:
            for flood in floods:
                flood.terminate()


def open_files(box: Box, which: str) -> int:
    return len(list(box.sandbox.outside(Path(f"/proc/{box.pid(which)}/fd")).iterdir()))


@pytest.mark.parametrize(
    ("name", "said"),
    [("that say nothing", ""), ("with half a head", "GET /v1/hea"), ("that have been answered", HEALTH.decode())],
)
def test_idle_connections_keep_no_other_out(box: Box, attack: Attack, inside: str, name: str, said: str) -> None:
    with attack(f"connections: 1,200 {name}"), flooded(box, inside, said):
        job_id = box.submit("--", "true")
        assert box.wait_for(job_id)["state"] == "SUCCEEDED"
        assert open_files(box, "daemon") < 1_000


def test_waiting_clients_are_bounded_and_the_next_is_told_so(box: Box, attack: Attack, inside: str) -> None:
    path, running = box.socket, box.submit("--", "sleep", "2")
    with attack("connections: 1,200 that wait for an hour"):
        with flooded(box, inside, WAIT):
            status, problem = answered(path, HEALTH)
            assert status == 503
            assert problem["error"] == "weft has too many connections"
            assert problem["hint"]
            done = box.weft("queue")
            assert done.returncode != 0
            assert "too many connections" in done.stderr
            assert "Traceback" not in done.stderr
            assert open_files(box, "daemon") < 1_000
        wait_until(lambda: open_files(box, "daemon") < 100, "the connections are closed")
    assert box.wait_for(running)["state"] == "SUCCEEDED"


def test_clients_that_do_not_read_make_room_for_others(box: Box, attack: Attack, inside: str) -> None:
    path = box.socket
    chatty = box.submit("--", sys.executable, "-c", "for n in range(100_000): print('a line of output', n)")
    assert box.wait_for(chatty)["state"] == "SUCCEEDED"
    deaf = f"GET /v1/jobs/{chatty}/logs HTTP/1.1\r\nHost: weft\r\n\r\n"
    with attack("connections: 800 that do not read a log of 2 MB"):
        with flooded(box, inside, deaf, times=2):
            wait_until(lambda: answered(path, HEALTH)[0] == 200, "one of them is closed for us")
            assert open_files(box, "daemon") < 1_000
        wait_until(lambda: open_files(box, "daemon") < 100, "the connections are closed")


def test_waits_of_clients_that_have_gone_are_given_up(box: Box, attack: Attack, inside: str) -> None:
    with attack("connections: 2,000 waits for an hour, each of which hangs up"):
        assert box.run(sys.executable, "-c", STORM, inside, "2000", WAIT).returncode == 0
        wait_until(lambda: open_files(box, "daemon") < 100, "the connections are closed")
    with attack("connections: 2,000 that say nothing and hang up"):
        assert box.run(sys.executable, "-c", STORM, inside, "2000", "").returncode == 0


def test_what_is_no_http_is_refused(box: Box, attack: Attack) -> None:
    path = box.socket
    for name, sent in NO_HTTP.items():
        with attack(f"http: {name}"):
            answer = exchanged(path, sent, half_closes=True, timeout_s=5.0)
            assert not answer or answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 4")), answer[:200]


def test_odd_but_legal_http_is_answered(box: Box, attack: Attack) -> None:
    path = box.socket
    with attack("http: 300 requests in one piece"):
        closing = request("GET", "/v1/policy")
        pipelined = b"GET /v1/policy HTTP/1.1\r\nHost: weft\r\n\r\n" * 299 + closing
        assert exchanged(path, pipelined).count(b"HTTP/1.1 200 OK") == 300
    with attack("http: a request a byte at a time"), connected(path) as line:
        for byte in request("GET", "/v1/policy"):
            line.send(bytes([byte]))
        assert line.recv(100).startswith(b"HTTP/1.1 200")
    with attack("http: a body that waits to be asked for, and never comes"), connected(path) as line:
        line.send(f"{POST}Expect: 100-continue\r\nContent-Length: 10\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 100")
    with attack("http: half a body, then the end"):
        exchanged(path, f"{POST}Content-Length: 10\r\n\r\n{{".encode(), half_closes=True, timeout_s=5.0)
    with attack("http: a chunked body in 5,000 chunks"):
        chunks = b"1\r\n \r\n" * 5_000 + b"0\r\n\r\n"
        assert answered(path, request("POST", "/v1/jobs", chunks, ["Transfer-Encoding: chunked"]))[0] == 422


def test_slow_clients_are_closed(box: Box, attack: Attack) -> None:
    path = box.socket
    with ExitStack() as stack:
        slow, silent, halved, bodied = (stack.enter_context(connected(path)) for _ in range(4))
        halved.send(b"GET /v1/health HTT")
        bodied.send(f"{POST}Content-Length: 100\r\n\r\n{{".encode())
        with attack("slow: a head that comes a byte at a time"):
            wait_until(lambda: not _takes(slow), "it is closed")
        with attack("slow: a connection that says nothing"):
            wait_until(lambda: _is_closed(silent), "it is closed")
        with attack("slow: half a head"):
            wait_until(lambda: _is_closed(halved), "it is closed")
        with attack("slow: a body that does not come"):
            assert bodied.recv(100).startswith(b"HTTP/1.1 408")


def _takes(line: socket.socket) -> bool:
    """Whether another byte of a head is taken."""
    try:
        line.send(b"G")
    except OSError:
        return False
    return True


def _is_closed(line: socket.socket) -> bool:
    line.settimeout(0.01)
    try:
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True
