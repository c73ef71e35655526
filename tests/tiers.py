"""Each test is of one tier, by what it starts. Its folder says which, unless its file has a mark in `pytestmark`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TIERS = {
    "unit": "starts no process: what is decided, simulated or computed",
    "process": "starts real processes (daemons, coordinators, shepherds, commands), none of which trains",
    "torch": "real PyTorch jobs train in it",
}
OF_FOLDER = {
    "api": "unit",
    "cli": "process",
    "control": "process",
    "core": "unit",
    "docs": "torch",
    "hostile": "torch",
    "live": "torch",
    "native": "process",
    "node": "process",
    "policies": "unit",
    "properties": "unit",
    "results": "unit",
    "runtime": "torch",
    "trace": "unit",
    "worlds": "unit",
}
TESTS = Path(__file__).parent


def tier_of_folder(path: Path) -> str | None:
    """Of the folder that a file is in; those beside this one are of the unit tier."""
    folder = path.relative_to(TESTS).parts[0]
    return "unit" if folder == path.name else OF_FOLDER.get(folder)


def tiers_in(path: Path) -> set[str]:
    """Those that the file names in its `pytestmark`."""
    found = re.search(r"^pytestmark = .*?\n\n", path.read_text(), re.MULTILINE | re.DOTALL)
    return {tier for tier in TIERS if found and f"pytest.mark.{tier}" in found[0]}


def is_left_out(path: Path, wanted: str) -> bool:
    """Whether a file has no test for `pytest -m wanted`: then it need not be imported."""
    if wanted not in TIERS or not path.match("test_*.py"):
        return False
    return wanted not in (tiers_in(path) or {tier_of_folder(path)})


def give_tiers(items: list[pytest.Item]) -> None:
    for item in items:
        if not tiers_of(item) and (tier := tier_of_folder(item.path)):
            item.add_marker(tier)


def tiers_of(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers() if mark.name in TIERS}
