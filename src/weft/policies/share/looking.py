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

    def is_due(self, view: View, is_there_news: bool = False) -> bool:
        """Whether to look now; then the next look is some time away. What has changed for jobs is news in any case."""
        self._has_news = self._has_news or is_there_news or bool(view.changes)
        if not self._has_news or view.jobs_waiting <= len(view.seated) or view.now < self._next_s:
            return False
        self._next_s, self._has_news = view.now + self.every_s, False
        return True

    def wake_at(self, view: View, news_at_s: float = math.inf, leaving: int = 0) -> float:
        """When to look though nothing happens: news came too soon after the last look, or comes by itself later on.

        So many guests are about to leave: from the next look on others may have their seats, and they may have others.
        """
        if view.jobs_waiting <= len(view.seated) - leaving:
            return math.inf
        if leaving or self._has_news:
            return self._next_s if self._next_s > view.now else view.now + self.every_s
        return max(self._next_s, news_at_s)
