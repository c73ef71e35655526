"""A figure: what was measured, beside what was wanted and what others have."""

from __future__ import annotations

import sys
from dataclasses import dataclass


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
    for figure in figures:
        verdict = {True: "met", False: "MISSED", None: ""}[figure.is_met]
        print(f"  {figure.name:<58} {figure.measured:>22}  {figure.goal:<16} {verdict}")
        if figure.peers:
            print(f"      {figure.peers}")
    sys.stdout.flush()
    return all(figure.is_met is not False for figure in figures)
