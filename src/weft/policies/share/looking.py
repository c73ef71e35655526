"""When to look for new guests: not at every decision, and not while nothing has happened."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from weft.core.view import View


@dataclass
class Looks:
    every_s: float = 15.0
    _next_s: float = field(default=-math.inf, init=False, repr=False)
    _has_news: bool = field(default=True, init=False, repr=False)

    def is_due(self, view: View) -> bool:
        """Whether to look now; then the next look is some time away."""
        self._has_news = self._has_news or bool(view.changes)
        if not self._has_news or view.jobs_waiting <= len(view.seated) or view.now < self._next_s:
            return False
        self._next_s, self._has_news = view.now + self.every_s, False
        return True

    def wake_at(self, view: View) -> float:
        """When to look though nothing happens: there was news since the last look, too soon after it."""
        is_wanted = self._has_news and view.jobs_waiting > len(view.seated)
        return self._next_s if is_wanted and self._next_s > view.now else math.inf
