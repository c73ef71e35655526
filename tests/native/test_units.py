"""The core of the native library, part by part, under the sanitizers of addresses and of undefined behaviour.

Each story is a function of a C program in native/tests/, told in a process of its own. What goes wrong by chance comes
again with its seed: `WEFT_SEED=7 pytest tests/native/test_units.py`. Longer: `PROGRAM --seed 7 --rounds 20 [STORY]`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from compiled import NATIVE, build

from waiting import PATIENCE_S

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1")
WORLD = ("world.c", "thread_status.c", "stop_signal.c")
CORE = ("memory.c", "limiting.c", "overflow.c", "swapping.c", "sharing.c", "forking.c", "arena.c", "cpu.c", *WORLD)
PROGRAMS = {
    "test_arena": ("arena.c",),
    "test_world": WORLD,
    "test_blocked_signals": WORLD,
    "test_ordinary_signal": ("world.c", "thread_status.c"),
    "test_memory": CORE,
    "test_overflow": CORE,
    "test_swapping": CORE,
    "test_sharing": CORE,
    "test_forking": CORE,
}
SKIPPED = 77  # as in story.h


def stories() -> list[tuple[str, str]]:
    found = []
    for program in PROGRAMS:
        text = (NATIVE / "tests" / f"{program}.c").read_text()
        found += [(program, story) for story in re.findall(r"^ +STORY\((\w+)\),$", text, re.MULTILINE)]
    return found


@pytest.mark.parametrize(("program", "story"), stories())
def test_unit(program: str, story: str, tmp_path: Path) -> None:
    path = build(program, f"tests/{program}.c", *PROGRAMS[program], flags=SANITIZERS)
    # The library reserves more addresses than there is memory, and has no heap of its own that could leak.
    env = {**os.environ, "TMPDIR": str(tmp_path), "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=0"}
    seed = os.environ.get("WEFT_SEED", "1")
    told = subprocess.run(
        [path, "--seed", seed, story], env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if told.returncode == SKIPPED:
        pytest.skip(told.stdout.splitlines()[0])
    assert told.returncode == 0, told.stdout + told.stderr
