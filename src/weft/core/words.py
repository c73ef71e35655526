"""Small turns of phrase that reasons, messages and tables share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

WAITED = "all the time since it was submitted in which it had no devices and was not held"
"""What waiting is, wherever it is shown: see Job.wait_s."""


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(seconds: float) -> str:
    """A time as people say it: in the largest unit of which it comes to two, or nearly so."""
    if seconds < 90:
        return f"{seconds:.3g} s" if seconds >= 0.001 else "0 s"
    for unit, length_s in (("days", 86_400), ("h", 3_600)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds / 60:.0f} min"


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The name that was probably meant, or nothing."""
    by_lower = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def closest(name: str, names: Iterable[str]) -> str:
    """`did you mean …? ` if something is near enough, else nothing."""
    near = nearest(name, names)
    return f"did you mean {near}? " if near else ""
