"""The script that writes docs/results.md, with few jobs and without the published traces."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).parent.parent / "bench" / "results"


def results(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TRACES": str(folder / "nowhere"), "XDG_CACHE_HOME": str(folder)}
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", *words],
        cwd=folder, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return results(folder).stdout


def test_every_section_is_there_with_the_command_that_makes_it_again(page: str) -> None:
    for name in ("philly", "helios", "pai", "generated", "guaranteed", "T1", "T4", "X1", "X3", "G6", "A4", "L1"):
        assert f"python bench/results --section {name} --quick\n" in page


def test_a_trace_that_is_not_there_is_said_to_be_absent(page: str) -> None:
    assert page.count("is not there") == 5


def test_goals_are_judged(page: str) -> None:
    verdicts = [line for line in page.splitlines() if line.endswith(("| met |", "| **MISSED** |"))]
    assert len(verdicts) == 4 * 6  # two worlds, two goals each, on six generated traces
    for line in verdicts:
        _, _, measured, goal, verdict, _ = (cell.strip() for cell in line.split("|"))
        assert (float(measured) <= float(goal.removeprefix("≤ "))) == (verdict == "met")


def test_the_worked_example_of_allox_is_the_papers(page: str) -> None:
    assert "| X1: allox | 21.25 | 25 | 21.25 (makespan 25) |" in page


def test_what_was_simulated_is_remembered(folder: Path, page: str) -> None:
    again = results(folder, "--section", "L1")
    assert "10 remembered, 0 to simulate" in again.stderr
    assert again.stdout.strip() in page
