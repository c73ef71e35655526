"""What the runtime costs a job: a step under weft against a bare one, a boundary, a gate, a resume, a start."""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import Figure
from weft.node.devices.preload import environment
from weft.node.task.handle import Task, attach
from weft.runtime.page import layout
from weft.runtime.page.page_file import create

TRIOS, WARM_UP_ROUNDS, ROUNDS = 5, 3, 30
GATES = 300
HERE = Path(__file__).parent
BARE_ENV = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}

IDLE_BOUNDARY = """
import time, torch, gc
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
from weft_runtime.agent import the_agent
from weft_runtime.hooks.optimizer import Updates
import os
updates = Updates(the_agent(os.environ["WEFT_PAGE"]))
def once():
    updates.phase += 1
    updates.before(optimizer, (), {})
    updates.after(optimizer, (), {})
took = []
for _ in range(20000):
    began = time.perf_counter_ns(); once(); took.append(time.perf_counter_ns() - began)
print(*took[1000:])
"""
MARKED_STEPS = """
import time, weft
while True:
    with weft.step(): pass
    print(time.monotonic_ns(), flush=True)
"""


def overhead() -> list[Figure]:
    """A block of steps bare, one under weft, one bare, again and again. What the bare ones differ by is noise.

    Once in three processes, as a person would compare. There, where a process happens to lie in memory makes it faster
    or slower by several per cent, more than what is looked for; so also within one process, weft's hooks in and out.
    """
    apart = [rounds(("bare", "20"), ("weft", "20"), ("bare", "20")) for _ in range(TRIOS)]
    inside = [rounds(("weft", "20 off"), ("weft", "20"), ("weft", "20 off"), is_shared=True) for _ in range(3)]
    bare_ms = statistics.median(first for run in apart for first, _, _ in run) / 1e6
    return [
        *compared("a step under weft over a bare one", apart, key="step-overhead"),
        *compared("the same within one process: hooks in over out", inside),
        Figure("a bare step", f"{bare_ms:.2f} ms", "about 5 ms"),
    ]


def compared(name: str, runs: list[list[list[float]]], goal: float = 1.01, key: str = "") -> list[Figure]:
    under = [statistics.median(watched / ((one + two) / 2) for one, watched, two in run) for run in runs]
    control = [statistics.median(one / two for one, _, two in run) for run in runs]
    ratio, floor = statistics.median(under), max(abs(each - 1) for each in control)
    return [
        Figure(f"{name}, {len(runs)} x {ROUNDS} rounds", f"{ratio:.4f}", f"<= {goal:g}", ratio <= goal, key=key),
        Figure("    least and most of them", f"{min(under):.4f} to {max(under):.4f}"),
        Figure("    bare over bare, the control", f"{statistics.median(control):.4f}"),
        Figure("    noise floor: the control's largest distance from 1", f"{floor:.4f}"),
    ]


def rounds(*blocks: tuple[str, str], is_shared: bool = False) -> list[list[float]]:
    """The median step, in ns, of each block of each round; a block is who takes it and what is asked of him."""
    bare = [sys.executable, str(HERE / "five_ms.py")]
    under = [sys.executable, "-m", "weft.cli.main", "exec", "--"]
    commands = {"bare": bare, "weft": [*under, *bare], "hooks": ["env", "WEFT_NATIVE=", *under, *bare]}
    processes = [
        subprocess.Popen(commands[kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=BARE_ENV)
        for kind, _ in blocks[: 1 if is_shared else None]
    ]
    taking = processes * len(blocks) if is_shared else processes
    measured = [
        [_block(process, asked) for process, (_, asked) in zip(taking, blocks, strict=True)]
        for _ in range(WARM_UP_ROUNDS + ROUNDS)
    ]
    for process in processes:
        process.communicate()
    return measured[WARM_UP_ROUNDS:]


def _block(process: subprocess.Popen[str], asked: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{asked}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def latencies() -> list[Figure]:
    with _page() as (page, _):
        idle_us = [int(ns) / 1e3 for ns in _run(page, IDLE_BOUNDARY).split()]
        median = statistics.median(idle_us)
    gate_us, resume_us = _gates()
    return [
        Figure("a boundary with nothing to do, hooks included", f"{median:.1f} us", "< 20 us", median < 20),
        Figure("    p99", f"{_p99(idle_us):.1f} us"),
        Figure("gate: from the boundary to whoever asked knowing it", f"{statistics.median(gate_us):.0f} us"),
        Figure("    p99", f"{_p99(gate_us):.0f} us"),
        Figure("resume: from asking to the script's next line", f"{statistics.median(resume_us):.0f} us"),
        Figure("    p99", f"{_p99(resume_us):.0f} us"),
    ]


def _gates() -> tuple[list[float], list[float]]:
    """How long one side waits for the other to notice. The script prints the time at the line after each step."""
    chance = random.Random(1)
    gate_us, resume_us = [], []
    with _page() as (page, task):
        command = [sys.executable, "-c", MARKED_STEPS]
        process = subprocess.Popen(command, env=environment(BARE_ENV, page, None), stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        step = 0
        for _ in range(GATES):
            wanted = step + chance.randint(1, 3)
            task.pause(at_step=wanted, grace_s=60)
            gate_us.append((time.monotonic_ns() - task.ranks[0].words[layout.HEARTBEAT]) / 1e3)
            for _ in range(wanted - step - 1):
                process.stdout.readline()  # of the steps before the gate
            asked_ns = time.monotonic_ns()
            task.ask(layout.Depth.GATE, wanted + 1)
            resume_us.append((int(process.stdout.readline()) - asked_ns) / 1e3)
            step = wanted
        process.kill()
        process.communicate()
    return gate_us, resume_us


def starts() -> list[Figure]:
    """What every interpreter of a job pays, and what the SDK adds where a script imports it."""
    with _page() as (page, _):
        bare_ms = _start_ms("pass", dict(BARE_ENV))
        injected_ms = _start_ms("pass", environment(BARE_ENV, page, None))
        sdk_ms = _start_ms("import weft; weft.step", dict(BARE_ENV)) - bare_ms
    return [
        Figure("an interpreter's start, more than bare", f"{injected_ms - bare_ms:.1f} ms"),
        Figure("import weft and its SDK, without torch", f"{sdk_ms:.0f} ms", "< 50 ms", sdk_ms < 50),
    ]


def _start_ms(code: str, env: dict[str, str]) -> float:
    took_ms = []
    for _ in range(20):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], env=env, check=True)
        took_ms.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took_ms)


@contextmanager
def _page() -> Iterator[tuple[Path, Task]]:
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/dev/shm") as folder:
        path = Path(folder) / "a.page"
        create(str(path)).close()
        with attach(path) as task:
            yield path, task


def _run(page: Path, code: str) -> str:
    env = environment(BARE_ENV, page, None)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout


def _p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]
