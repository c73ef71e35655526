"""What one instant comes to: to be written, then done, then answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from weft.control.orders import Order
from weft.control.store import Fact


@dataclass
class Outcome:
    facts: list[Fact] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    environments: list[tuple[int, str, str]] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    """One for each input: what to say, or a WeftError."""
