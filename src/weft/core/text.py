"""Counts, durations and suggestions as text: shared by reasons, messages and tables."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

WAITING_TIME = "all the time since it was submitted in which it had no devices and was not held"
"""The definition of waiting time shown to users: see Job.wait_s."""


def count_of(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def duration_text(seconds: float) -> str:
    """A duration in the largest unit of which it is about two or more."""
    if seconds < 90:
        return f"{seconds:.3g} s" if seconds >= 0.001 else "0 s"
    for unit, length_s in (("days", 86_400), ("h", 3_600)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds / 60:.0f} min"


def closest_name(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The name that was probably meant; empty if none is close."""
    by_lower = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """`did you mean …? ` if a name is close enough, else empty."""
    near = closest_name(name, names)
    return f"did you mean {near}? " if near else ""
