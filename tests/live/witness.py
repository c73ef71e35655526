"""A job that leaves a trail: witness.py FOLDER KIND STEPS EXIT_CODE [BUSY_MS WAIT_MS KEPT_MB STEP_MB BURST_MB].

It needs no torch, so it is quick. Each process of it holds a lock on a file of the job's as long as it lives: whoever
finds it taken has met another attempt that lives, and writes so.

A step computes and then waits. What it keeps, needs in each step, and in every fiftieth, it allocates as PyTorch does:
so the native library serves it, and it has its memory measured, takes turns in a lane, and is held back. KIND torch is
a real training job instead.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys
import time
from pathlib import Path

import weft

folder, kind, steps, exit_code = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
busy_ms, wait_ms, kept_mb, step_mb, burst_mb = (float(word) for word in (sys.argv[5:] or ["0", "10", "0", "0", "0"]))
job, attempt, rank = os.environ["WEFT_JOB_ID"], os.environ["WEFT_ATTEMPT"], os.environ.get("RANK", "0")
BURST_EVERY, LINE = 50, 4096


def say(word: str) -> None:
    with (folder / job).open("a") as file:
        file.write(f"{word} {attempt} {rank} {os.getpid()}\n")


def allocated(size_mb: float) -> ctypes.c_void_p:
    """Memory with pages, if it is any."""
    place, size = ctypes.c_void_p(), int(size_mb * (1 << 20))
    if size:
        error = libc.posix_memalign(ctypes.byref(place), ctypes.c_size_t(LINE), ctypes.c_size_t(size))
        assert error == 0, os.strerror(error)
        ctypes.memset(place, 1, size)
    return place


def step(count: int) -> None:
    piece = allocated(step_mb + burst_mb * (count % BURST_EVERY == BURST_EVERY - 1))
    until_s = time.thread_time() + busy_ms / 1e3
    while time.thread_time() < until_s:
        pass
    libc.free(piece)
    time.sleep(wait_ms / 1e3)


def train() -> None:
    """A script that knows nothing of weft: its steps are those of its optimizer."""
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(384, 384), torch.nn.ReLU(), torch.nn.Linear(384, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for count in range(steps):
        time.sleep(wait_ms / 1e3)
        optimizer.zero_grad()
        net(torch.randn(256 if count % BURST_EVERY else 4096, 384)).square().mean().backward()
        optimizer.step()


lock = (folder / f"{job}.{rank}.lock").open("w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    say("overlap")
say("begin")
if kind == "forks" and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:  # a grandchild that nobody waits for, and that still has the lock
        time.sleep(600)
    os._exit(0)
if kind == "torch":
    train()
    steps = 0
libc = ctypes.CDLL(None)
if steps and (kept_mb or step_mb):
    from weft_runtime.agent import the_agent  # type: ignore[import-not-found]

    the_agent(os.environ["WEFT_PAGE"]).serve()
kept = allocated(kept_mb) if steps else None
for count in range(steps):
    with weft.step():
        step(count)
say("end")
os._exit(exit_code)
