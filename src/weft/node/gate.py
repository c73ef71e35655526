"""Letting a task stand at a step boundary for a while, for the sake of others, and go on."""

from __future__ import annotations

from weft.node.pausing import asked, send_on
from weft.node.task import Task
from weft.runtime.page.layout import Depth


class Gate:
    """Asks the task's pages for a pause. A task that somebody else is to pause, or to resume, is to be let go before
    that: what others ask it for stands."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._is_shut = False
        self._meeting_step = 0
        """Of a gang: where its ranks are to stand, so that none waits for another inside a step."""

    def shut(self) -> None:
        """To be repeated until it stands: the ranks of a gang are sent on until they meet."""
        if self.task.wanted == Depth.RUN:
            self.task.ask(Depth.GATE)
            self._is_shut, self._meeting_step = True, 0
        elif self._is_ours:
            gang = [rank for rank in asked(self.task) if rank.world]
            self._meeting_step = send_on(gang, self._meeting_step).step

    def open(self) -> None:
        """Unless somebody else has asked it for something since."""
        if self._is_ours:
            self.task.ask(Depth.RUN)
        self._is_shut = False

    @property
    def is_standing(self) -> bool:
        """All of it is at a boundary."""
        ranks = self.task.ranks
        return bool(ranks) and all(rank.is_paused for rank in ranks)

    @property
    def _is_ours(self) -> bool:
        """It was gated here, and nobody else has asked it for something since."""
        if not self._is_shut or self.task.wanted != Depth.GATE:
            return False
        return not any(rank.is_superseded for rank in [*self.task.firsts, *self.task.ranks])
