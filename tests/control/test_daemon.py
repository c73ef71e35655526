"""A real daemon process: it flushes its log before it answers, turns strangers away, and there is one at a time."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from waiting import PATIENCE_S, wait_until
from weft.client.unix_http import Connection
from weft.control.api.listener import Listener
from weft.control.daemon import _listen
from weft.system.home import Home
from weft.system.lockfile import LockedError, holder_of, taken_lock

STRACE = shutil.which("strace")
STRANGER = 65534


@pytest.fixture
def home() -> Iterator[Home]:
    """On a short path."""
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        made = Home(Path(folder) / "home")
        made.make()
        yield made
        shutil.rmtree(made.run, ignore_errors=True)


@contextmanager
def daemon(home: Home, before: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
    """One without a coordinator, which answers; in the end it is gone."""
    home.socket.unlink(missing_ok=True)
    process = subprocess.Popen(
        [*before, sys.executable, "-m", "weft.control.daemon", "--no-node"],
        env={**os.environ, "WEFT_HOME": str(home.root)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: home.socket.exists() or process.poll() is not None, "the daemon answers")
        assert process.poll() is None
        yield process
    finally:
        if holder := holder_of(home.daemon_lock):
            os.kill(holder, signal.SIGTERM)
        process.wait(30)


def ask(home: Home, method: str, path: str, body: object = None) -> tuple[int, object]:
    connection = Connection(str(home.socket))
    try:
        status, text = connection.request(method, path, None if body is None else json.dumps(body).encode(), 30.0)
        return status, json.loads(text)
    finally:
        connection.close()


def test_a_job_is_on_disk_before_its_submission_is_answered(home: Home, tmp_path: Path) -> None:
    """Nobody who was told 201 loses a job to a power cut."""
    if STRACE is None:
        pytest.skip("there is no strace here")
    trace = tmp_path / "trace"
    # Numbers are enough of descriptors, with -y their paths; the first bytes are enough of what is written.
    calls = "trace=fsync,fdatasync,write,writev,pwrite64,sendto,sendmsg"
    can_trace = subprocess.run([STRACE, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if can_trace.returncode:
        pytest.skip("strace is not allowed here")
    with daemon(home, [STRACE, "-f", "-y", "-s", "24", "-e", calls, "-o", str(trace), "-D"]):
        for number in range(1, 6):
            status, answer = ask(home, "POST", "/v1/jobs", {"command": ["true"], "env": {}, "hold": True})
            assert (status, answer) == (201, {"id": str(number), "ids": [str(number)]})
    lines = trace.read_text(errors="replace").splitlines()
    answered = [at for at, line in enumerate(lines) if "HTTP/1.1 201" in line]
    written = [at for at, line in enumerate(lines) if "weft.db-wal>" in line and "pwrite64(" in line]
    flushed = [at for at, line in enumerate(lines) if re.search(r"\bf(data)?sync\(\d+<[^>]*weft\.db-wal>", line)]
    assert len(answered) == 5, "each submission was answered once"
    since = 0
    for at in answered:
        rows = [write for write in written if since < write < at]
        assert rows, f"nothing was written before line {at}"
        assert any(rows[-1] < flush < at for flush in flushed), f"not flushed before line {at}: {lines[at]}"
        since = at


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be somebody else")
def test_somebody_else_is_turned_away_even_where_the_socket_lets_him_in() -> None:
    async def answer(connection: socket.socket) -> None:
        connection.send(b"come in")
        connection.close()

    async def listen(path: Path) -> None:
        listener = Listener(path, _listen)
        listener.open()
        path.chmod(0o666)
        serving = asyncio.create_task(listener.run(answer))
        assert await asyncio.to_thread(answer_to, 0, path) == b"come in"
        assert await asyncio.to_thread(answer_to, STRANGER, path) == b""
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()

    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        Path(folder).chmod(0o755)
        asyncio.run(listen(Path(folder) / "sock"))


def answer_to(user: int, path: Path) -> bytes:
    """What a user hears, as told by a child process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"could not connect"
        with suppress(BaseException):
            os.setgid(user)
            os.setuid(user)
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(20)
                line.connect(str(path))
                with suppress(OSError):
                    line.sendall(b"GET /v1/policy HTTP/1.1\r\nHost: weft\r\n\r\n")
                try:
                    told = line.recv(4096)
                except ConnectionResetError:
                    told = b""
        os.write(writing, told)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        return pipe.read()


def test_there_is_one_daemon_for_each_home(home: Home) -> None:
    with daemon(home) as first:
        second = subprocess.run(
            [sys.executable, "-m", "weft.control.daemon", "--no-node"],
            env={**os.environ, "WEFT_HOME": str(home.root)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 1
        assert f"error: a daemon runs already for {home.root}: process {first.pid}" in second.stderr
        assert "hint: weft down ends it" in second.stderr
        assert ask(home, "GET", "/v1/policy")[0] == 200


def test_a_daemon_that_is_killed_leaves_nothing_that_keeps_the_next_one_out(home: Home) -> None:
    with daemon(home) as first:
        assert ask(home, "POST", "/v1/jobs", {"command": ["true"], "hold": True})[0] == 201
        first.kill()
        first.wait()
    with daemon(home):
        wait_until(lambda: ask(home, "GET", "/v1/jobs/1")[0] == 200, "the job is there again")


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("weft.toml", "polcy = 3", "unknown key polcy"),
        ("weft.toml", 'policy = "fofi"', 'unknown policy "fofi"'),
        ("weft.db", "this is no database at all, and it is long enough to be sure" * 50, "the log cannot be read"),
    ],
)
def test_a_daemon_that_cannot_begin_says_why(home: Home, file: str, content: str, message: str) -> None:
    home.make()
    (home.root / file).write_text(content)
    ended = subprocess.run(
        [sys.executable, "-m", "weft.control.daemon", "--no-node"],
        env={**os.environ, "WEFT_HOME": str(home.root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0].startswith("error: ")
    assert message in ended.stderr
    assert "hint: " in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_lock_is_its_holders_until_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder_of(path) is None
    with taken_lock(path, "daemon"):
        assert holder_of(path) == os.getpid()
        with pytest.raises(LockedError, match=f"process {os.getpid()}"), taken_lock(path, "daemon"):
            pass
    assert holder_of(path) is None


def test_a_policy_that_knows_no_quotas_is_warned_of_where_there_are_some(home: Home) -> None:
    home.make()
    home.settings.write_text("[tenants.vision]\nquota = 1\n")

    def are_warned_of() -> bool:
        _, health = ask(home, "GET", "/v1/health")
        assert isinstance(health, dict)
        return any("quotas and classes do not count" in warning for warning in health["warnings"])

    with daemon(home):
        assert not are_warned_of()
        assert ask(home, "PUT", "/v1/policy", {"policy": "salus"})[0] == 200
        assert are_warned_of()


def test_a_daemon_whose_sockets_were_removed_listens_anew(home: Home) -> None:
    with daemon(home, []):
        home.socket.unlink()
        wait_until(home.socket.exists, "it listens anew")
        assert ask(home, "GET", "/v1/health")[0] == 200


def test_a_daemon_without_descriptors_refuses_connections_and_goes_on(home: Home) -> None:
    with daemon(home) as process:
        before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        is_open = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (is_open, before[1]))
        for _ in range(3):
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(30)
                line.connect(str(home.socket))
                assert line.recv(1) == b"", "it is closed at once"
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
        status, health = ask(home, "GET", "/v1/health")
        assert status == 200
        assert isinstance(health, dict)
        assert health["pid"] == process.pid


def test_a_daemon_raises_its_own_limit_of_open_files_alone(home: Home) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with daemon(home, ["prlimit", "--nofile=512:"]) as process:
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (min(hard, 1 << 16), hard)
        assert b"WEFT_SOFT_NOFILE" not in Path(f"/proc/{process.pid}/environ").read_bytes()
        assert ask(home, "POST", "/v1/jobs", {"command": ["true"], "hold": True})[0] == 201
        _, job = ask(home, "GET", "/v1/jobs/1")
        assert isinstance(job, dict)
        assert "PATH" in job["env"]
        assert "WEFT_SOFT_NOFILE" not in job["env"]
