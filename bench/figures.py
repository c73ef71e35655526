"""A figure: what was measured, beside what was wanted and what others have. What is shown is also written down."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "figures"
RECORDED = ROOT / "tests" / "properties" / "recorded"
WORLD = ROOT / "src" / "weft" / "sim" / "worlds" / "default.toml"

SHOWN: dict[str, list[dict[str, Any]]] = {}
"""What this run has shown so far, by title."""


@dataclass(frozen=True)
class Figure:
    name: str
    measured: str
    goal: str = ""
    is_met: bool | None = None
    peers: str = ""
    key: str = ""
    """By which the README takes it."""


def show(title: str, figures: list[Figure], about: str = "") -> bool:
    """Print a group of figures; true if every goal in it is met."""
    print(f"\n{title}{f'  ({about})' if about else ''}")
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.is_met]
        print(f"  {figure.name:<58} {figure.measured:>22}  {figure.goal:<16} {verdict}")
        if figure.peers:
            print(f"      {figure.peers}")
    SHOWN[title] = [described(figure) for figure in figures]
    sys.stdout.flush()
    return all(figure.is_met is not False for figure in figures)


def described(figure: Figure) -> dict[str, Any]:
    found = {
        "name": figure.name,
        "measured": figure.measured,
        "goal": figure.goal,
        "is_met": figure.is_met,
        "peers": figure.peers,
        "key": figure.key,
    }
    return {name: value for name, value in found.items() if value not in ("", None)}


def decisions() -> dict[str, str]:
    """Of each policy, a digest of its recorded decisions, and one of the default world: a simulated figure is of the
    code that makes these. The tests hold the recorded decisions to the code."""
    files = {path.stem: path for path in sorted(RECORDED.glob("*.txt"))} | {"default world": WORLD}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest()[:16] for name, path in files.items()}


def write(command: str, groups: dict[str, list[dict[str, Any]]], **also: Any) -> Path:
    """Into docs/figures, one file a command. A group that was measured takes the place of the one of its title."""
    import weft

    path = FOLDER / f"{re.sub(r'[^a-z0-9]+', '-', command)}.json"
    of = {"version": weft.__version__, "commit": _commit()}
    known = read(path)["groups"] if path.is_file() else {}
    written = {
        "command": command,
        **of,
        **also,
        "groups": known | {title: {**of, "figures": figures} for title, figures in groups.items()},
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
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
