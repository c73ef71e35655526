"""What the README tells people to type works as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


COMMANDS = [line.split("#")[0] for block in blocks("sh") for line in block.splitlines() if line.startswith("weft ")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder, but for the two files that the README shows."""
    (tmp_path / "jobs.csv").write_text(blocks("csv")[0], encoding="utf-8")
    (tmp_path / "small_first.py").write_text(blocks("python")[0], encoding="utf-8")
    return tmp_path


def run(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_weft_command_of_the_readme_runs(command: str, folder: Path) -> None:
    weft = Path(sys.executable).with_name("weft")
    words = shlex.split(command)
    output = run([str(weft), *words[1:]], folder)
    policies = words[words.index("--policy") + 1].split(",")
    assert all(policy.split(":")[0] in output for policy in policies)
    if "--report" in words:
        assert (folder / words[words.index("--report") + 1]).stat().st_size > 1_000_000


def test_the_python_example_of_the_readme_runs(folder: Path) -> None:
    assert "tiresias-l" in run([sys.executable, "-c", blocks("python")[1]], folder)


def test_the_readme_names_every_policy() -> None:
    from weft.policies import POLICIES

    assert all(f"`{name}`" in README for name in POLICIES)
