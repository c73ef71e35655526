"""Single values of a world file: what each may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.core.errors import InputError
from weft.sizes import parsed_bytes


def is_number(given: Any, least: float = 0.0) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and least <= given < math.inf


def numbers(table: Mapping[str, Any], key: str, source: str) -> dict[str, float]:
    floor = 0.0 if key == "skew" else 1e-9
    for name, given in table.items():
        if not is_number(given, floor):
            least = "≥ 0" if key == "skew" else "above 0"
            raise InputError(f"{source}: [{key}] {name} = {given!r} is not a number {least}", f"e.g. {name} = 1.0")
    return {name: float(given) for name, given in table.items()}


def sizes(table: Mapping[str, Any], source: str) -> dict[str, int]:
    found = {}
    for name, given in table.items():
        found[name] = size(given) or 0
        if not found[name]:
            raise InputError(f"{source}: [memory] {name} = {given!r} is not a size", f'e.g. {name} = "16G"')
    return found


def size(given: Any) -> int | None:
    """Bytes: a whole number, or a text like "1.5G"."""
    if isinstance(given, str):
        try:
            return parsed_bytes(given)
        except InputError:
            return None
    return given if isinstance(given, int) and not isinstance(given, bool) and given >= 0 else None


def memory(given: Any) -> tuple[int, int] | None:
    """What lasts and what does not; nothing is no answer."""
    if not isinstance(given, list) or len(given) != 2:
        return None
    persistent, ephemeral = map(size, given)
    return (persistent, ephemeral) if persistent and ephemeral is not None else None


def load(given: Any) -> tuple[float, float] | None:
    """A utilisation, or one and a weight."""
    utilisation, weight = given if isinstance(given, list) and len(given) == 2 else (given, 1.0)
    if not is_number(utilisation, 1e-6) or not is_number(weight, 1e-6) or utilisation > 1:
        return None
    return float(utilisation), float(weight)
