"""How much is run. `make test` runs each meaning once; `make test-all` (TESTS=all) runs every combination of them.

It is an environment variable because the choice is made as modules are imported, also by jobs that tests submit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
One = TypeVar("One")

IS_FULL = os.environ.get("TESTS") == "all"


def sample(of: Sequence[One], every: int) -> list[One]:
    """All of them, or else the first and every so-many-th after it: the same ones at each run."""
    return list(of if IS_FULL else of[::every])


def sample_of_table(of: Mapping[Key, Value], every: int) -> dict[Key, Value]:
    return {key: of[key] for key in sample(list(of), every)}


def pairs(groups: Iterable[Sequence[One]], others: Sequence[Value]) -> list[tuple[One, Value]]:
    """Each of a group with each of the others. Or else: each one with one of the others, which take turns.

    Every group, even one of a single member, then still comes with every other.
    """
    if IS_FULL:
        return [(one, other) for group in groups for one in group for other in others]
    chosen = []
    for group in groups:
        for at in range(max(len(group), len(others))):
            chosen.append((group[at % len(group)], others[at % len(others)]))
    return chosen
