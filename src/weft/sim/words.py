"""Small turns of phrase that messages and tables share."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def span(seconds: float) -> str:
    """A time as people say it."""
    if seconds < 90:
        return f"{seconds:.3g} s" if seconds >= 0.001 else "0 s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str:
    """The name that was probably meant, or nothing."""
    by_lower = {each.lower(): each for each in names}
    near = get_close_matches(name.lower(), by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else ""


def closest(name: str, names: Iterable[str]) -> str:
    """`did you mean …? ` if something is near enough, else nothing."""
    near = nearest(name, names)
    return f"did you mean {near}? " if near else ""
