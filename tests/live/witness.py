"""A job that leaves a trail: witness.py FOLDER KIND STEPS EXIT_CODE. It needs no torch, so it is quick.

Each process of it holds a lock on a file of the job's as long as it lives: whoever finds it taken has met another
attempt that lives, and writes so.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from pathlib import Path

import weft

folder, kind, steps, exit_code = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
job, attempt, rank = os.environ["WEFT_JOB_ID"], os.environ["WEFT_ATTEMPT"], os.environ.get("RANK", "0")


def say(word: str) -> None:
    with (folder / job).open("a") as file:
        file.write(f"{word} {attempt} {rank} {os.getpid()}\n")


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
for _ in range(steps):
    with weft.step():
        time.sleep(0.01)
say("end")
os._exit(exit_code)
