"""This machine as a world: what is measured with real jobs is a file that the simulator reads."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from waiting import PATIENCE_S
from weft.calibration.measurements import fit_pairs
from weft.core.values import JobSpec
from weft.sim.colocation import Fitted, Profile
from weft.sim.world import load_world

pytestmark = pytest.mark.process


def weft(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "weft.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def test_what_a_quick_calibration_writes_is_a_world(tmp_path: Path) -> None:
    file = tmp_path / "here.toml"
    done = weft("calibrate", "--quick", "--devices", "cpu=2", "-o", str(file))
    assert done.returncode == 0, done.stderr
    assert "checkpoint and launch, same device" in done.stderr
    world = load_world(str(file))
    assert 0 <= world.pause_s < world.preemption_s
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < (world.memory_bytes("cpu") or 0) <= memory // 2
    waits, computes = (world.profile(JobSpec("j", model=model), 0) for model in ("loader", "mlp"))
    assert waits.utilisation < computes.utilisation <= 1
    assert isinstance(world.interference, Fitted)
    assert not list(Path("/dev/shm").glob("weft-calibrate-*"))  # noqa: S108


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--devices", "cuda"], 'error: "cuda" cannot be measured: only cpu devices so far'),
        (["--devices", "cpu=0"], 'error: "cpu=0": a number of devices is'),
        (["-o", "nowhere/here.toml"], "error: "),
    ],
)
def test_what_cannot_be_measured_is_said_at_once(words: list[str], error: str) -> None:
    done = weft("calibrate", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(error)


JOBS = {"a": Profile(0.3, 1.0), "b": Profile(0.8, 1.0), "c": Profile(0.9, 3.0), "d": Profile(0.6, 0.5)}
TRUTH = Fitted(0.25)
PAIRS = {(a, b): TRUTH.rates("", (JOBS[a], JOBS[b])) for a, b in combinations_with_replacement(JOBS, 2)}


def test_the_contention_behind_measured_pairs_is_found_where_utilisations_are_known() -> None:
    fit = fit_pairs(PAIRS, {name: profile.utilisation for name, profile in JOBS.items()})
    assert fit.fitted.contention == pytest.approx(0.25, abs=0.01)
    assert fit.profiles["c"].weight / fit.profiles["b"].weight == pytest.approx(3.0, rel=0.05)
    assert fit.root_mean_square < 0.005


def test_pairs_are_explained_where_nothing_else_is_known() -> None:
    fit = fit_pairs(PAIRS)
    assert fit.root_mean_square < 0.02
    assert fit.median <= fit.root_mean_square
