"""Everybody may compete."""

from __future__ import annotations

from dataclasses import dataclass

from weft.core.view import View


@dataclass(frozen=True)
class Everyone:
    def rounds(self, view: View) -> tuple[None]:
        return (None,)
