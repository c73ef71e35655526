"""What runs are called where there is little room, and how runs of the same name are told apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def short_name(policy: str) -> str:
    """The policy's name without file and parameters."""
    head, *words = policy.split(":")
    return words[0] if words and head.endswith(".py") else head


def short_labels(policies: Sequence[str]) -> list[str]:
    return numbered([short_name(policy) for policy in policies])


def numbered(names: Sequence[str]) -> list[str]:
    """The names, with a number behind each that occurs several times."""
    times = Counter(names)
    seen: Counter[str] = Counter()
    labels = []
    for name in names:
        seen[name] += 1
        labels.append(f"{name} #{seen[name]}" if times[name] > 1 else name)
    return labels
