"""Pages move while other threads live: threads that block all signals, as those of libraries do, and real libraries.

jemalloc's background thread, which pyarrow brings along, blocks every signal that libc lets it block. A job with such a
thread is paused at every depth, obeys a lowered limit and hands its lane over like any other one.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from underweft import Running, environment, forked_under_weft, page_folder
from waiting import PATIENCE_S, wait_until
from weft.node.exec.command_limits import the_library
from weft.node.task.gang_barrier import PauseRefusedError

LIBRARY, WHY_NOT = the_library()
pytestmark = pytest.mark.skipif(not LIBRARY, reason=WHY_NOT)

# Threads that sleep, one that computes without the interpreter's lock, and one that writes at any time to what moves:
# it counts each element up in every round.
BLOCKED = """
import hashlib, os, select, signal, sys, threading, time, torch
is_over = threading.Event()
def blocked(what, *words):
    def run():
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        what(*words)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread
lock = threading.Lock(); lock.acquire()
blocked(lock.acquire)
blocked(time.sleep, 3600)
blocked(select.epoll().poll)
blocked(os.read, os.pipe()[0], 1)
def compute():
    while not is_over.is_set(): hashlib.sha256(bytes(1 << 20)); time.sleep(0.002)
blocked(compute)
touched, rounds = torch.zeros(200_000, dtype=torch.int64), 0
def touch():
    global rounds
    while not is_over.is_set():
        touched.add_(1); rounds += 1
        time.sleep(0.0002)
toucher = blocked(touch)
"""
ENDS_BLOCKED = "is_over.set(); toucher.join(); print(bool((touched == rounds).all()))\n"

LIBRARIES = {
    "pyarrow": """
import pyarrow, pyarrow.compute
print(pyarrow.compute.sum(pyarrow.table({"a": list(range(100_000))})["a"]))
""",
    "pandas": """
import pandas
frame = pandas.DataFrame({"a": range(100_000), "b": ["x"] * 100_000})
print(frame.groupby("b")["a"].sum().to_dict())
""",
    "sklearn": """
import numpy, sklearn.ensemble
forest = sklearn.ensemble.RandomForestRegressor(n_estimators=4, random_state=0, n_jobs=2)
print(forest.fit(numpy.arange(200.0).reshape(100, 2), numpy.arange(100.0)).predict([[7.0, 8.0]])[0])
""",
    "datasets": """
import os; os.environ["HF_HUB_OFFLINE"] = os.environ["HF_DATASETS_OFFLINE"] = "1"
import datasets, pyarrow
rows = datasets.Dataset(pyarrow.table({"a": list(range(1000))}), fingerprint="a").with_format("torch")
print(rows[:]["a"].sum())
""",
}

TRAINS = """
import sys, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(384, 384) for _ in range(8)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
losses = []  # each step leaves something behind in the lane
def step():
    optimizer.zero_grad(); loss = model(torch.ones(16, 384)).square().mean(); loss.backward(); optimizer.step()
    losses.append(loss.detach().repeat(2000 + 100 * (len(losses) % 7)))
for _ in range(45): step()
print(sum(parameter.double().sum().item() for parameter in model.parameters()), torch.cat(losses).double().sum().item())
"""


def with_library(name: str) -> Any:
    is_missing = importlib.util.find_spec(name) is None
    mark = pytest.mark.skipif(is_missing, reason=f"{name} is not installed")
    return pytest.param(LIBRARIES[name] + TRAINS, id=name, marks=mark)


scripts = pytest.mark.parametrize(
    "script", [pytest.param(BLOCKED + TRAINS + ENDS_BLOCKED, id="blocked"), *map(with_library, LIBRARIES)]
)


@cache
def bare(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment(), check=True)
    return done.stdout


def pause_at(running: Running, step: int, depth: str) -> None:
    """And go on. The script ends before the step only if something is wrong."""
    pause = running.task.pause(at_step=step, grace_s=PATIENCE_S)
    assert pause.how == "boundary"
    if depth != "gate":
        assert running.task.pause(depth, grace_s=PATIENCE_S).depth == depth
    running.task.resume()


@scripts
def test_pauses_and_limits_are_the_same_as_without_such_threads(script: str) -> None:
    with forked_under_weft(sys.executable, "-c", script) as running:
        running.wait_for_steps()
        pause_at(running, 5, "drop-caches")
        pause_at(running, 10, "swap-out")
        for step, limit in ((15, "8M"), (20, "4M"), (25, "1G"), (30, "6M")):  # of 13 MB and more
            running.task.pause(at_step=step, grace_s=PATIENCE_S)
            running.task.set_limit(limit)
            running.task.resume()
            running.task.pause(at_step=step + 3, grace_s=PATIENCE_S)
            assert (running.task.status().ranks[0].overflow_bytes > 0) == (limit != "1G"), f"{limit} is obeyed"
            running.task.resume()
        pause_at(running, 36, "swap-out")
        running.task.set_limit(0)
        out, err, code = running.end()
    assert (out, err, code) == (bare(script), "", 0)


@scripts
def test_a_lane_is_handed_over_past_such_threads(script: str) -> None:
    with page_folder() as folder:
        options = ("--lane", str(folder / "lane"), "--lane-capacity", "256M")
        both = [forked_under_weft(sys.executable, "-c", each, options=options) for each in (script, TRAINS)]
        with ExitStack() as stack:
            one, other = (stack.enter_context(_paused_at_once(each)) for each in both)
            for running in (one, other):
                running.task.resume()
            for running, each in ((one, script), (other, TRAINS)):
                assert running.end() == (bare(each), "", 0)
                rank = running.task.status().ranks[0]
                assert rank.turns > 30
                assert rank.copied_out_bytes > 0, "and it left something behind"


@contextmanager
def _paused_at_once(start: AbstractContextManager[Running]) -> Iterator[Running]:
    """Started, and paused near its beginning: it may be over before another one comes."""
    with start as running:
        running.task.pause(at_step=2, grace_s=PATIENCE_S)
        yield running


DEAF = """
import ctypes, ctypes.util, os, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"x86_64": 14, "aarch64": 135}
is_deaf = threading.Event()
def be_deaf():  # by a system call of its own: libc's function would leave libc's own signals alone
    everything = ctypes.c_uint64(2**64 - 1)
    libc.prctl(15, b"deaf-one")
    assert libc.syscall(NUMBERS[os.uname().machine], 2, ctypes.byref(everything), None, 8) == 0
    is_deaf.set()
    time.sleep(3600)
threading.Thread(target=be_deaf, daemon=True).start()
is_deaf.wait()
"""


def test_a_thread_that_cannot_be_stopped_is_named_and_the_job_runs_on(tmp_path: Path) -> None:
    script = DEAF + TRAINS.replace("for _ in range(45)", f"while not os.path.exists({str(tmp_path / 'over')!r})")
    with forked_under_weft(sys.executable, "-c", script) as running:
        running.wait_for_steps()
        with pytest.raises(PauseRefusedError, match=r'the thread "deaf-one" \(\d+\) sleeps and blocks every signal'):
            running.task.pause("swap-out", grace_s=PATIENCE_S)
        running.task.resume()
        running.task.set_limit("4M")
        step = running.task.step
        wait_until(lambda: running.task.step > step + 40, "it runs on")
        (tmp_path / "over").touch()
        _, err, code = running.end()
    assert code == 0
    assert err.count("\n") == 1
    assert 'the limit of 4.0 MiB cannot be obeyed for now: the thread "deaf-one"' in err
