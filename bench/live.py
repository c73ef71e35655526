"""What the live system costs: starting a job, submitting many, a restart with a long queue, a long past."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import weft
from figures import Figure
from weft.protocol import VERSION
from weft.system.home import Home

ROUNDS = 15
CLIENTS, EACH = 4, 400
QUEUED, FINISHED = 10_000, 100_000
FIRST_LINE = "import time; print(time.clock_gettime(time.CLOCK_MONOTONIC))"
"""The first line of user code: when it is."""
ENVIRON = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""What is measured is compiled once and not at every start, as a weft that is installed."""
COMMAND = [sys.executable, "-m", "weft.cli.main"]


@contextmanager
def weft_here(
    devices: str = "cpu=2", policy: str = "fifo", cores: str = "", *, settings: str = "", through: Sequence[str] = ()
) -> Iterator[weft.Client]:
    """A weft of its own, and no trace of it afterwards; all of it on these cores, if they are said. `settings` is its
    weft.toml, and `through` a command that starts it."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        Path(folder, "weft.toml").write_text(settings)
        env = {**os.environ, "WEFT_HOME": folder}
        bound = ["taskset", "--cpu-list", cores] if cores else []
        up = [*bound, *through, *COMMAND, "up", "--devices", devices, "--policy", policy]
        subprocess.run(up, env=env, check=True, stderr=subprocess.DEVNULL)
        try:
            with weft.Client(folder) as client:
                yield client
        finally:
            subprocess.run([*COMMAND, "down", "--stop-jobs"], env=env, check=True, stderr=subprocess.DEVNULL)


# ---- submit → first line


def starts() -> list[Figure]:
    """Python's own start is measured between two submissions, in the same way, and taken off."""
    bare, by_client, by_command = [], [], []
    with weft_here() as client:
        for _ in range(ROUNDS):
            bare.append(_bare_s())
            by_client.append(_by_client_s(client))
            by_command.append(_by_command_s(client))
    start_s = statistics.median(bare)
    beyond_ms = 1000 * (statistics.median(by_client) - start_s)
    command_ms = 1000 * (statistics.median(by_command) - start_s)
    peers = "Slurm 2,700 ms (700 tuned), gflow 1,100, Ray jobs 1,100, task-spooler 4 (recorded)"
    figures = [
        Figure(
            "submit → first line of user code, Python's start taken off",
            f"{beyond_ms:.0f} ms",
            "≤ 100 ms",
            beyond_ms <= 100,
            peers,
            "submit-latency",
        ),
        Figure("the same from typing weft submit", f"{command_ms:.0f} ms"),
        Figure("Python's own start", f"{1000 * start_s:.0f} ms"),
    ]
    if tsp := shutil.which("tsp"):
        ms = 1000 * (statistics.median(_by_task_spooler_s(tsp) for _ in range(ROUNDS)) - start_s)
        figures.append(Figure("task-spooler, installed here, the same way", f"{ms:.0f} ms"))
    return figures


def _bare_s() -> float:
    begun_s = time.monotonic()
    done = subprocess.run([sys.executable, "-c", FIRST_LINE], capture_output=True, text=True, check=True)
    return float(done.stdout) - begun_s


def _by_client_s(client: weft.Client) -> float:
    begun_s = time.monotonic()
    job_id = client.submit([sys.executable, "-c", FIRST_LINE])
    return _first_line_s(client, job_id) - begun_s


def _by_command_s(client: weft.Client) -> float:
    env = {**os.environ, "WEFT_HOME": str(client.home.root)}
    begun_s = time.monotonic()
    submit = [*COMMAND, "submit", "--parsable", "--", sys.executable, "-c", FIRST_LINE]
    done = subprocess.run(submit, env=env, capture_output=True, text=True, check=True)
    return _first_line_s(client, done.stdout.strip()) - begun_s


def _first_line_s(client: weft.Client, job_id: str) -> float:
    assert client.wait(job_id)["state"] == "SUCCEEDED"
    return float("".join(client.logs(job_id)))


def _by_task_spooler_s(tsp: str) -> float:
    begun_s = time.monotonic()
    made = subprocess.run([tsp, sys.executable, "-c", FIRST_LINE], capture_output=True, text=True, check=True)
    done = subprocess.run([tsp, "-c", made.stdout.strip()], capture_output=True, text=True, check=True)
    return float(done.stdout) - begun_s


# ---- submits per second


def submits() -> list[Figure]:
    """Each client is a process with a connection of its own; all jobs stay in the queue behind two that run."""
    with weft_here() as client:
        for _ in range(2):
            client.submit(["sleep", "600"])
        one = _rate_hz(client.home, 1)
        several = _rate_hz(client.home, CLIENTS)
    peers = "Slurm 169–205, task-spooler 506, gflow 38, Ray jobs ~1.2 (recorded)"
    return [
        Figure(
            f"durable submits per second, {CLIENTS} clients",
            f"{several:,.0f}/s",
            "≥ 500/s",
            several >= 500,
            peers,
            "submits",
        ),
        Figure("the same, 1 client", f"{one:,.0f}/s"),
    ]


def _rate_hz(home: Home, clients: int) -> float:
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(clients + 1)
    workers = [context.Process(target=_submit_many, args=(home, ready)) for _ in range(clients)]
    for worker in workers:
        worker.start()
    ready.wait()
    begun_s = time.monotonic()
    for worker in workers:
        worker.join()
    assert all(worker.exitcode == 0 for worker in workers)
    return clients * EACH / (time.monotonic() - begun_s)


def _submit_many(home: Home, ready: object) -> None:
    with weft.Client(home) as client:
        client.health()
        ready.wait()  # type: ignore[attr-defined]
        for _ in range(EACH):
            client.submit(["true"])


# ---- restart with a long queue, memory with a long past


def restarts() -> list[Figure]:
    """From spawning the daemon to its first answer, less the same for a Python that only imports it."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        home = Home(Path(folder))
        with bare_daemon(home), weft.Client(folder) as client:
            client.submit(["true"], array=f"1-{QUEUED}")
        imports_s = statistics.median(_imports_s() for _ in range(5))
        answers_s = statistics.median(restart_s(home) for _ in range(5))
    beyond_s = answers_s - imports_s
    return [
        Figure(f"restart with {QUEUED:,} queued jobs, beyond imports", f"{beyond_s:.2f} s", "≤ 1 s", beyond_s <= 1),
        Figure("the imports", f"{imports_s:.2f} s"),
    ]


def memory() -> list[Figure]:
    """Real submissions, decisions and ends, by a node that only says that its jobs have run."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        home = Home(Path(folder))
        with bare_daemon(home) as daemon, weft.Client(folder, timeout_s=60) as client:
            node = multiprocessing.get_context("spawn").Process(target=pretend_node, args=(home,), daemon=True)
            node.start()
            begun_s = time.monotonic()
            for _ in range(FINISHED // 10_000):
                client.submit(["true"], array="1-10000")
                while client.health()["jobs"].get("PENDING", 0) > 2_000:
                    time.sleep(0.05)
            while client.health()["jobs"].get("SUCCEEDED", 0) < FINISHED:
                time.sleep(0.05)
            took_s = time.monotonic() - begun_s
            resident_mb = _resident_mb(daemon.pid)
            node.terminate()
        with bare_daemon(home) as daemon, weft.Client(folder, timeout_s=60) as client:
            client.health()
            after_mb = _resident_mb(daemon.pid)
        size_mb = home.database.stat().st_size / 1e6
    return [
        Figure(
            f"memory of the daemon after {FINISHED:,} jobs", f"{resident_mb:.0f} MB", "≤ 150 MB", resident_mb <= 150
        ),
        Figure("the same after a restart", f"{after_mb:.0f} MB"),
        Figure("jobs submitted, started and ended per second on the way", f"{FINISHED / took_s:,.0f}/s"),
        Figure("the log on disk", f"{size_mb:.0f} MB"),
    ]


@contextmanager
def bare_daemon(home: Home, policy: str = "fifo") -> Iterator[subprocess.Popen[bytes]]:
    """Without a coordinator: nothing is launched."""
    home.make()
    env = {**ENVIRON, "WEFT_HOME": str(home.root)}
    command = [sys.executable, "-m", "weft.control.daemon", "--policy", policy, "--no-node"]
    daemon = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    try:
        _until_answers(home)
        yield daemon
    finally:
        daemon.kill()
        daemon.wait()


def _until_answers(home: Home) -> None:
    with weft.Client(home) as client:
        while True:
            try:
                client.health()
            except weft.client.UnreachableError:
                time.sleep(0.002)
            else:
                return


def restart_s(home: Home, policy: str = "fifo") -> float:
    begun_s = time.monotonic()
    with bare_daemon(home, policy):
        return time.monotonic() - begun_s


def _imports_s() -> float:
    begun_s = time.monotonic()
    subprocess.run([sys.executable, "-c", "import weft.control.daemon"], check=True)
    return time.monotonic() - begun_s


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3


def pretend_node(home: Home, count: int = 512, run_s: float = 0.0) -> None:
    """Says of every job that it was started and, so long after the last that ended, has ended well."""
    devices = [
        {
            "index": at,
            "kind": "cpu",
            "type": "cpu",
            "name": f"cpu{at}",
            "memory_bytes": 2**30,
            "cores": [0],
            "blocked_by": None,
        }
        for at in range(count)
    ]
    line = socket.socket(socket.AF_UNIX)
    line.connect(str(home.node_socket))
    said, heard = line.makefile("w"), line.makefile("r")
    hello = {
        "type": "hello",
        "protocol": VERSION,
        "node": "n",
        "boot_id": "b",
        "pid": os.getpid(),
        "devices": devices,
        "attempts": [],
    }
    said.write(json.dumps(hello) + "\n")
    said.flush()
    serial = 0
    for text in heard:
        order = json.loads(text)
        if order["type"] == "run":
            about = {
                "type": "report",
                "job": order["job"],
                "attempt": order["attempt"],
                "generation": order["generation"],
            }
            for word in ({"what": "started", "pids": []}, {"what": "ended", "exit_code": 0, "message": ""}):
                serial += 1
                said.write(json.dumps({**about, "serial": serial, **word}) + "\n")
                said.flush()
                time.sleep(run_s / 2)
