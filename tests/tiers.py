"""Each test is of one tier, by what it starts. Its folder says which, unless its file has a mark in `pytestmark`."""

from __future__ import annotations

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


def tier_of(path: Path) -> str | None:
    """What its folder says; a file beside this one is of the unit tier."""
    folder = path.relative_to(TESTS).parts[0]
    return "unit" if folder == path.name else OF_FOLDER.get(folder)


def give_tiers(items: list[pytest.Item]) -> None:
    for item in items:
        if not tiers_of(item) and (tier := tier_of(item.path)):
            item.add_marker(tier)


def tiers_of(item: pytest.Item) -> set[str]:
    return {mark.name for mark in item.iter_markers() if mark.name in TIERS}
