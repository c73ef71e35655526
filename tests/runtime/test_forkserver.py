"""A script forked from a process that has imported torch is the script that was started: see tests/forkserver.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from extent import IS_FULL
from underweft import SCRIPTS, Running, forked_under_weft, marked_steps, pause_at_random_steps, under_weft

SAMPLE = ["cnn", "gan", "threaded", "lbfgs", "inference"]
LOOKS = """
import atexit, json, os, signal, sys
atexit.register(lambda: print("over"))
import torch
kept = ("PYTHONPATH", "LD_PRELOAD", "WEFT_TIER", "WEFT_STRICT", "OMP_NUM_THREADS")
print(json.dumps({
    "argv": sys.argv,
    "path": sys.path,
    "main": sorted(name for name in vars(sys.modules["__main__"]) if not name.startswith("__")),
    "environment": {name: os.environ.get(name) for name in kept},
    "weft in it": sorted(name for name in sys.modules if name.partition(".")[0] in ("weft", "weft_runtime", "click")),
    "finders": [type(finder).__name__ for finder in sys.meta_path if not isinstance(finder, type)],
    "signals": {number: str(signal.getsignal(number)) for number in sorted(signal.valid_signals())},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "leads its group": os.getpgid(0) == os.getpid(),
    "library": "libweft.so" in open("/proc/self/maps").read(),
    "files": sorted(fd for fd in map(int, os.listdir("/proc/self/fd")) if fd < 3),
}, indent=1))
if len(sys.argv) > 1: raise SystemExit(int(sys.argv[1]))
raise ValueError("as any script may")
"""

pytestmark = pytest.mark.skipif(IS_FULL, reason="nothing is forked with TESTS=all")

Start = Callable[..., AbstractContextManager[Running]]


def both_ways(look: Callable[[Start], object]) -> None:
    started, forked = look(under_weft), look(forked_under_weft)
    assert started == forked


@pytest.mark.parametrize("name", SAMPLE)
def test_a_forked_script_prints_the_same_bits_counts_the_same_steps_and_pauses_as_often(name: str) -> None:
    script = SCRIPTS / f"{name}.py"

    def look(start: Start) -> object:
        with start(sys.executable, str(script)) as running:
            pauses = pause_at_random_steps(running, seed=3)
            assert running.task.status().step == marked_steps(script)
            (rank,) = running.task.status().ranks
            return *running.end(), pauses, rank.source, rank.can_swap, rank.native_version, rank.overflow_bytes

    both_ways(look)


@pytest.mark.parametrize("words", [(), ("0",), ("7",)])
def test_a_forked_script_finds_the_interpreter_as_a_started_one_does(words: tuple[str, ...], tmp_path: Path) -> None:
    script = tmp_path / "looks.py"
    script.write_text(LOOKS)

    def look(start: Start) -> object:
        with start(sys.executable, str(script), *words, options=("--limit", "1G")) as running:
            out, err, code = running.end()
            return out, err.splitlines()[-1:], code

    both_ways(look)


def test_a_forked_script_is_served_by_the_native_library_within_its_limit() -> None:
    code = """
import torch
model = torch.nn.Linear(2048, 2048)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5): optimizer.zero_grad(); model(torch.ones(4, 2048)).sum().backward(); optimizer.step()
print(model.weight.sum().isnan().item())
"""

    def look(start: Start) -> object:
        with start(sys.executable, "-c", code, options=("--limit", "20M")) as running:
            ended = running.end()
            (rank,) = running.task.status().ranks
            return ended, rank.step, rank.overflow_bytes > 0, rank.persistent_bytes

    both_ways(look)
