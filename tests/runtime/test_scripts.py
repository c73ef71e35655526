"""Unmodified scripts: bare, under weft, and paused at random, they print the same values and end with the same state.

Every line a script prints after a step holds exact values, and the last one a hash of all parameters, buffers and
optimizer states. So equal output is the same hash.
"""

from __future__ import annotations

import sys

import pytest

from underweft import SCRIPTS, bare, forked_under_weft, marked_steps, pause_at_random_steps, under_weft

PLAIN = [
    "cnn",
    "rnn",
    "transformer",
    "vae",
    "gan",
    "ema_replay",
    "scaler",
    "in_backward",
    "lbfgs",
    "inference",
    "inference_scripted",
    "inference_compiled",
    "two_optimizers",
    "distilled",
    "n_critic",
    "sac_delayed",
    "td3_delayed",
    "two_phase",
    "unusual",
    "sweep",
    "cells",
    "threaded",
    "compiled",
    "detector",
]
RUNS = [(name, ()) for name in PLAIN] + [("workers", ("fork",)), ("workers", ("spawn",))]
REAL_STARTS = {"cnn", "workers", "compiled", "inference_compiled", "detector"}
"""Those that start interpreters of their own or load PyTorch's compiler, and two as they are run every day."""
IDS = [" ".join((name, *words)) for name, words in RUNS]


@pytest.mark.parametrize(("name", "words"), RUNS, ids=IDS)
def test_a_script_does_the_same_under_weft(name: str, words: tuple[str, ...]) -> None:
    """Paused again and again; hardly paused, and beside two others, in tests/native/test_lanes.py."""
    script = SCRIPTS / f"{name}.py"
    start = under_weft if name in REAL_STARTS else forked_under_weft
    with start(sys.executable, str(script), *words) as running:
        pauses = pause_at_random_steps(running, seed=len(name))
        out, err, code = running.end()
        assert (code, out) == (0, bare(script, *words)), err
        assert "weft: " not in err
        assert running.task.status().step == marked_steps(script)
        assert pauses >= marked_steps(script) // 5


def test_every_script_is_run() -> None:
    scripts = {path.stem for path in SCRIPTS.glob("*.py")}
    assert scripts - {"fingerprint", "manual", "ddp", "resumable", "ddp_resumable"} == {name for name, _ in RUNS}
