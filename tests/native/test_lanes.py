"""Three different scripts in one lane, step by step in turns: each prints what it prints alone, to the last bit.

The lane is filled with NaN bytes at each hand-over. So whoever read a tensor that is not its own any more would say so.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from compiled import NATIVE, build

from underweft import SCRIPTS, bare, environment, forked_under_weft, marked_steps, page_folder, under_weft
from waiting import PATIENCE_S
from weft.node.task.rank import RankStatus
from weft.runtime.allocator import library_path

LIBRARY = tuple(source.name for source in sorted(NATIVE.glob("*.c")))
TRIOS = [
    ("cnn", "threaded", "ema_replay"),  # a thread that prefetches and one that reads weights; tensors kept on purpose
    ("rnn", "workers fork", "transformer"),  # variable lengths, DataLoader workers
    ("gan", "workers spawn", "vae"),
    ("scaler", "in_backward", "lbfgs"),
    ("inference", "inference_scripted", "two_phase"),
    ("two_optimizers", "distilled", "n_critic"),
    ("unusual", "compiled", "inference_compiled"),
    ("sweep", "cells", "cnn"),  # optimizers and models that come and go
]

REAL_STARTS = {"workers", "compiled", "inference_compiled"}
"""They start interpreters of their own, or load PyTorch's compiler."""

pytestmark = [pytest.mark.torch, pytest.mark.skipif(library_path() is None, reason="the native library was not built")]


def together(trio: tuple[str, ...], library: Path | None = None) -> list[tuple[str, str, RankStatus]]:
    """What each of them printed, and what it prints alone. None begins its third step before all have begun."""
    env = {**environment(), "WEFT_POISON": "1", **({"WEFT_NATIVE": str(library)} if library else {})}
    with ExitStack() as stack:
        lane = stack.enter_context(page_folder()) / "lane"
        words = [name.split() for name in trio]
        all_running = []
        for name, *rest in words:
            start = under_weft if library or name in REAL_STARTS else forked_under_weft
            command = (sys.executable, str(SCRIPTS / f"{name}.py"), *rest)
            all_running.append(stack.enter_context(start(*command, options=("--lane", str(lane)), env=env)))
            all_running[-1].task.pause(at_step=2, grace_s=PATIENCE_S)
        for running in all_running:
            running.task.resume()
        ended = [running.end() for running in all_running]
        outs = []
        for (name, *rest), (out, err, code), running in zip(words, ended, all_running, strict=True):
            assert code == 0 or library, err
            outs.append((out, bare(SCRIPTS / f"{name}.py", *rest), running.task.status().ranks[0]))
        assert library or not lane.exists(), "the last member removes the lane's page, unless it crashed"
        return outs


@pytest.mark.parametrize("trio", TRIOS, ids=", ".join)
def test_three_scripts_in_one_lane_do_what_they_do_alone(trio: tuple[str, ...]) -> None:
    for name, (out, alone, rank) in zip(trio, together(trio), strict=True):
        assert out == alone
        assert rank.step == marked_steps(SCRIPTS / f"{name.split()[0]}.py")
        assert rank.turns > 0 or rank.ephemeral_bytes == 0, "it was in the lane, unless it needs nothing there"
        assert rank.native_version


def test_without_copying_survivors_out_values_would_be_wrong() -> None:
    """That is, the test above can tell. A trio may by chance hand over only where nothing survives, above all while
    other programs use the cores, so several get several tries."""
    broken = build("libbroken.so", *LIBRARY, flags=("-fPIC", "-shared", "-DWEFT_NO_COPY_OUT"))
    assert any(out != alone for trio in 4 * TRIOS[:3] for out, alone, _ in together(trio, broken))
