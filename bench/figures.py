"""A figure: what was measured, beside what was wanted and what others have. What is shown is also written down."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "figures"
RECORDED = ROOT / "tests" / "properties" / "recorded"
WORLD = ROOT / "src" / "weft" / "sim" / "worlds" / "default.toml"

SHOWN: list[dict[str, Any]] = []
"""What this run has shown so far."""


@dataclass(frozen=True)
class Figure:
    name: str
    measured: str
    goal: str = ""
    is_met: bool | None = None
    peers: str = ""


def show(title: str, figures: list[Figure]) -> bool:
    """Print a group of figures; true if every goal in it is met."""
    print(f"\n{title}")
    above = ""
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.is_met]
        print(f"  {figure.name:<58} {figure.measured:>22}  {figure.goal:<16} {verdict}")
        if figure.peers:
            print(f"      {figure.peers}")
        if figure.name.startswith("    "):
            name = f"{above}/{slug(figure.name)}"
        else:
            name = above = f"{slug(title.partition('  (')[0])}/{slug(figure.name)}"
        if figure.measured:
            SHOWN.append({"name": name, "value": figure.measured, "goal": figure.goal})
    sys.stdout.flush()
    return all(figure.is_met is not False for figure in figures)


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def decisions() -> dict[str, str]:
    """Of each policy, a digest of its recorded decisions, and one of the default world: a simulated figure is of the
    code that makes these. The tests hold the recorded decisions to the code."""
    files = {path.stem: path for path in sorted(RECORDED.glob("*.txt"))} | {"default world": WORLD}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in files.items()}


def write(command: str, figures: Iterable[dict[str, Any]], **also: Any) -> Path:
    """Into docs/figures, one file a command. What a part of it has measured takes the place of what was there."""
    import weft

    path = FOLDER / f"{slug(command)}.json"
    of = {"command": command, "version": weft.__version__, "commit": _commit()}
    known = read(path)["figures"] if path.is_file() else []
    merged = {each["name"]: each for each in known} | {each["name"]: {**each, **of} for each in figures}
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = {**of, **also, "figures": list(merged.values())}
    path.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _commit() -> str:
    git = shutil.which("git")
    if git is None:
        return ""
    asked = [git, "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
