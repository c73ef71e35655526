"""100,000 queued jobs: how long answers and a restart take, while submissions and decisions go on."""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import weft
from figures import Figure
from live import COMMAND, ENVIRON, bare_daemon, pretend_node, restart_s
from weft.system.home import Home

ARRAYS, EACH = 10, 9_800
SINGLES, CLIENTS = 2_000, 4
QUEUED = ARRAYS * EACH + SINGLES
ROUNDS = 5
WATCHED_S = 20.0
HEALTH_S, ANSWER_S, RESTART_S = 0.05, 0.3, 3.0
RUN_S = 0.5
"""What a job takes on the node: two decisions of every instant, and the queue stays long."""


def long_queue() -> list[Figure]:
    """A real daemon under the default policy; its node only says that its jobs have run."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        home = Home(Path(folder))
        with bare_daemon(home, "weft") as daemon, weft.Client(folder, timeout_s=60) as client:
            node = multiprocessing.get_context("spawn").Process(target=pretend_node, args=(home, 2, RUN_S), daemon=True)
            node.start()
            figures = _submitted(client)
            figures += _answers(client)
            figures.append(_health(client, home))
            figures.append(Figure("memory of the daemon", f"{_resident_mb(daemon.pid):.0f} MB"))
            node.terminate()
            node.join()
        restarts = [restart_s(home, "weft") for _ in range(3)]
    figures.append(
        _judged(
            "restart: from its start to the answer of /v1/health",
            statistics.median(restarts),
            RESTART_S,
            key="long-queue-restart",
        )
    )
    return figures


# ---- submitting


def _submitted(client: weft.Client) -> list[Figure]:
    begun_s = time.monotonic()
    for number in range(ARRAYS):
        client.submit(["true"], array=f"1-{EACH}", name=f"array-{number}")
    arrays_s = time.monotonic() - begun_s
    begun_s = time.monotonic()
    workers = [threading.Thread(target=_submit_singles, args=(client.home,)) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    singles_s = time.monotonic() - begun_s
    return [
        Figure(f"submitting {ARRAYS * EACH:,} jobs in {ARRAYS} arrays", f"{ARRAYS * EACH / arrays_s:,.0f}/s"),
        Figure(f"then {SINGLES:,} one by one, {CLIENTS} clients", f"{SINGLES / singles_s:,.0f}/s"),
    ]


def _submit_singles(home: Home) -> None:
    with weft.Client(home, timeout_s=60) as client:
        for _ in range(SINGLES // CLIENTS):
            client.submit(["true"])


# ---- asking


def _answers(client: weft.Client) -> list[Figure]:
    """Whole commands, the start of Python included; the jobs asked for are at the end of the queue and at its front."""
    last = client.page(limit=1, state="PENDING")["jobs"][0]["id"]
    behind = f"{ARRAYS - 1}_{EACH}"
    env = {**ENVIRON, "WEFT_HOME": str(client.home.root)}
    figures = []
    for words in (("queue",), ("status", behind), ("why", behind), ("why", last)):
        took = [_command_s([*COMMAND, *words], env) for _ in range(ROUNDS)]
        wall_s, cpu_s = (statistics.median(each) for each in zip(*took, strict=True))
        spent = f"CPU time of the command: {cpu_s:.2f} s"
        key = "long-queue" if words == ("queue",) else ""
        figures.append(_judged(f"weft {' '.join(words)}", wall_s, ANSWER_S, spent, key))
    return figures


def _command_s(command: list[str], env: dict[str, str]) -> tuple[float, float]:
    """Wall time, and CPU time, which a busy machine changes less."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun_s = time.monotonic()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wall_s = time.monotonic() - begun_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _health(client: weft.Client, home: Home) -> Figure:
    """Asked every few ms while one client submits, one lists everything and one asks why."""
    over = threading.Event()
    work: list[Callable[[weft.Client], object]] = [
        lambda one: one.submit(["true"]),
        lambda one: one.queue(),
        lambda one: one.why(f"{ARRAYS - 1}_{EACH}"),
    ]
    others = [multiprocessing.get_context("fork").Process(target=_again, args=(home, each)) for each in work]
    for other in others:
        other.start()
    seen = []
    end_s = time.monotonic() + WATCHED_S
    while time.monotonic() < end_s:
        begun_s = time.monotonic()
        client.health()
        seen.append(time.monotonic() - begun_s)
        over.wait(0.005)
    for other in others:
        other.terminate()
        other.join()
    seen.sort()
    spread = f"median {seen[len(seen) // 2] * 1e3:.1f} ms, 99 % below {seen[len(seen) * 99 // 100] * 1e3:.1f} ms"
    return Figure(
        f"/v1/health, the longest of {len(seen):,} answers meanwhile",
        f"{seen[-1] * 1e3:.0f} ms",
        f"≤ {HEALTH_S * 1e3:.0f} ms",
        seen[-1] <= HEALTH_S,
        spread,
        "long-queue-health",
    )


def _again(home: Home, ask: Callable[[weft.Client], object]) -> None:
    with weft.Client(home, timeout_s=60) as client:
        while True:
            ask(client)


def _judged(name: str, took_s: float, goal_s: float, more: str = "", key: str = "") -> Figure:
    return Figure(name, f"{took_s:.2f} s", f"≤ {goal_s:g} s", took_s <= goal_s, more, key)


def _resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1e3
