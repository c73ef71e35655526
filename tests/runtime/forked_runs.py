"""Runs scripts one after the other, each in a forked child, so that torch is imported once for all of them.

argv: a JSON file with the runs, each {"words": script and arguments, "env": …, "fail_at": …}; `fail_at` is where the
checkpoint writer of the run dies, in its third checkpoint. Prints a line of JSON for each run: its exit code, and what
it printed to stdout and to stderr. Run under weft.
"""

import json
import os
import runpy
import sys
import traceback
from pathlib import Path

import torch
from weft_runtime.checkpoint.rank_store import RankStore

PRINTED = [Path(sys.argv[1]).with_suffix(suffix) for suffix in (".out", ".err")]
THIRD = 3  # of four checkpoints: there are older ones to be removed


def run_in_a_child(words, env, fail_at):
    child = os.fork()
    if child == 0:
        for number, path in enumerate(PRINTED, start=1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.environ.update(env)
        fail_in_the_third(fail_at)
        os._exit(run(words))
    status = os.waitpid(child, 0)[1]
    return [os.waitstatus_to_exitcode(status), *(path.read_text() for path in PRINTED)]


def run(words):
    """The exit code that the script's own interpreter would have had."""
    sys.argv = words
    sys.path.insert(0, str(Path(words[0]).parent))
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as left:
        return left.code or 0
    except BaseException:  # noqa: BLE001 -- it is printed, as an interpreter does at its end
        traceback.print_exc()
        return 1
    return 0


def fail_in_the_third(fail_at):
    save, steps = RankStore.save, []

    def counted_save(store, step, state):
        steps.append(step)
        if len(steps) == THIRD:
            os.environ["WEFT_FAIL_AT"] = fail_at
        save(store, step, state)

    RankStore.save = counted_save


torch.optim.SGD([torch.zeros(1)])  # the first optimizer loads half of PyTorch: once, before the forks
for asked in json.loads(Path(sys.argv[1]).read_text()):
    print(json.dumps(run_in_a_child(**asked)), flush=True)
