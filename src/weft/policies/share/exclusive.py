"""A device belongs to one job at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from weft.core.view import View


@dataclass(frozen=True)
class Exclusive:
    is_static: ClassVar[bool] = True

    def offers(self, view: View, node: int) -> int:
        return view.free_counts[node]
