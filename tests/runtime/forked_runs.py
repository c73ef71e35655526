"""Runs resumable.py in forked children: killed at each fail-point of the checkpoint writer, then run again to the end.

torch is imported once for all of them. Prints a line for each fail-point: how the first child ended, the step the
second one began at, and the fingerprint it ended with. Run under weft with a directory for checkpoints.
"""

import contextlib
import io
import os
import runpy
import shutil
import sys
from pathlib import Path

import torch
from weft_runtime.durable import FAIL_POINTS
from weft_runtime.store import Store

SCRIPT = Path(__file__).parents[1] / "scripts" / "resumable.py"
THIRD = 18  # the step of the third checkpoint of four: there are older ones to be removed


def run_in_a_child(fail_at):
    """The status a child ended with, and what it printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        run(fail_at, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        printed = pipe.read()
    return os.waitpid(pid, 0)[1], printed


def run(fail_at, writing):
    save = Store.save

    def fail_in_the_third(store, step, state):
        if step == THIRD and fail_at:
            os.environ["WEFT_FAIL_AT"] = fail_at
        save(store, step, state)

    Store.save = fail_in_the_third
    sys.path.insert(0, str(SCRIPT.parent))
    sys.argv = [str(SCRIPT), "0", "6"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(str(SCRIPT), run_name="__main__")
    os.write(writing, printed.getvalue().encode())
    os._exit(0)


torch.optim.SGD([torch.zeros(1)])  # the first optimizer loads half of PyTorch: once, before the forks
for point in FAIL_POINTS:
    shutil.rmtree(os.environ["WEFT_CHECKPOINTS"], ignore_errors=True)
    ended, _ = run_in_a_child(point)
    status, printed = run_in_a_child("")
    lines = printed.splitlines()
    print(point, ended, status, lines[0].split()[1], lines[-1].split()[1], flush=True)
