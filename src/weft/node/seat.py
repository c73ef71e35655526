"""How an attempt is on its devices: it holds them, or is a guest there; held back or not; in a lane or in none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.core.value import value


@value
class Seat:
    is_guest: bool = False
    is_throttled: bool = False
    """Whether it is to be held back so far that whoever holds its devices runs as if alone."""
    lane: int = 0
    """The lane of its device that it is to be in; 0 for none."""
    base: int = 0
    weight: int = 1
    """The next turn is of the waiting member with the smallest base + weight * time used; so by default all get the
    same time."""

    @classmethod
    def from_json(cls, said: Mapping[str, Any] | None) -> Seat:
        """As an order says it; who is told nothing of a seat holds its devices."""
        said = said or {}
        return cls(
            is_guest=bool(said.get("guest")),
            is_throttled=bool(said.get("throttled")),
            lane=int(said.get("lane") or 0),
            base=int(said.get("base") or 0),
            weight=int(said.get("weight", 1)),
        )


HOLDER = Seat()
