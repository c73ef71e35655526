"""What a limit costs that binds: below what the job needs, so that in every step tensors overflow to a file.

python bench/limits.py [MODEL ...]    MODEL is cnn or mlp; without any, both
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from figures import Figure, show

HERE = Path(__file__).parent
EXEC = [sys.executable, "-m", "weft.cli.main", "exec"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
MODELS, SHARES, STEPS, ROUNDS = ("cnn", "mlp"), (90, 70, 50), 25, 3
GOAL_SHARE, GOAL = 70, 1.3


def figures(models: tuple[str, ...] = MODELS) -> list[Figure]:
    """Ratios within one round: each setting in turn, so that what else the machine does hits all of them alike."""
    return [figure for model in models for figure in _of_model(model)]


def _of_model(model: str) -> list[Figure]:
    rounds = [_round(model) for _ in range(ROUNDS)]
    _agree(rounds)
    shown = [_shown(f"{model}: library without a limit over bare", rounds, "free", "bare")]
    for share in SHARES:
        name = f"{model}: limit at {share} % of P + T over no limit"
        shown.append(_shown(name, rounds, str(share), "free", GOAL if share == GOAL_SHARE else None))
        shown.append(_explained(rounds, str(share)))
    return shown


def _round(model: str) -> dict[str, dict[str, Any]]:
    bare, free = _run(model, under=()), _run(model)
    bound = {str(share): _run(model, limit=int(free["needs_bytes"] * share / 100)) for share in SHARES}
    return {"bare": bare, "free": free, **bound}


def _run(model: str, under: tuple[str, ...] = (*EXEC, "--"), limit: int = 0) -> dict[str, Any]:
    under = (*EXEC, "--limit", str(limit), "--") if limit else under
    command = [*under, sys.executable, str(HERE / "limit_job.py"), model, str(STEPS)]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=True)
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def _agree(rounds: list[dict[str, dict[str, Any]]]) -> None:
    sums = {run["sum"] for each in rounds for run in each.values()}
    assert len(sums) == 1, f"the results differ: {sums}"


def _shown(
    name: str, rounds: list[dict[str, dict[str, Any]]], one: str, other: str, goal: float | None = None
) -> Figure:
    """CPU time decides: on a machine that others use, the clock on the wall tells of them as well."""
    cpu, wall = (
        statistics.median(each[one][what] / each[other][what] for each in rounds) for what in ("cpu_ms", "wall_ms")
    )
    measured = f"{cpu:.2f} CPU, {wall:.2f} wall"
    return Figure(name, measured) if goal is None else Figure(name, measured, f"<= {goal} CPU", cpu <= goal)


def _explained(rounds: list[dict[str, dict[str, Any]]], one: str) -> Figure:
    system_ms, faults, written_mb = (
        statistics.median(each[one][what] for each in rounds) for what in ("system_ms", "faults", "written_mb")
    )
    return Figure("    a step", f"{system_ms:.1f} ms kernel, {faults:.0f} faults, {written_mb:.1f} MB dirtied")


if __name__ == "__main__":
    sys.exit(0 if show("Under a limit that binds", figures(tuple(sys.argv[1:]) or MODELS)) else 1)
