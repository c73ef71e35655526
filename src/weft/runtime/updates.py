"""Training: from optimizer steps to step boundaries.

The optimizer hook is not the step: it fires for each of several optimizers, twice for a wrapper around another one,
once per layer for optimizers stepped inside backward, and never when GradScaler skips. So the outermost step() counts
once, the rounds of optimizers are learnt (cycle.py), backward passes tell one round from the next, and a skipped step
ends where the scaler is updated.
"""

import functools
import sys
from threading import get_ident
from typing import Any, Dict, Tuple

from .agent import Agent
from .cycle import Cycle
from .layout import Source


class Updates:
    """The optimizers of this process, as they come."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.cycle = Cycle()
        self.phase = 0  # backward passes so far
        self._outermost: Dict[int, Tuple[int, Any]] = {}  # thread → its optimizer inside step(), by id, and the frame
        self._is_owed = False  # a skipped step closed the round; it ends when the scaler is updated

    def before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        thread, frame = get_ident(), sys._getframe(1)
        outer = self._outermost.get(thread)
        if outer is None or not _is_within(outer[1], frame):
            self._outermost[thread] = (id(optimizer), frame)

    def after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        thread = get_ident()
        if self._outermost.get(thread, (0, None))[0] != id(optimizer):
            return
        del self._outermost[thread]
        self.agent.updates += 1
        if self._closes(optimizer):
            self.agent.boundary(Source.OPTIMIZER)

    def skipped(self, optimizer: Any) -> None:
        self._is_owed = self._closes(optimizer)

    def scaler_updated(self) -> None:
        if self._is_owed:
            self._is_owed = False
            self.agent.boundary(Source.OPTIMIZER)

    def end(self) -> None:
        """The script is over. A first round has no second one that could show its end."""
        if self.cycle.is_first or self._is_owed:
            self.agent.count(Source.OPTIMIZER)

    def _closes(self, optimizer: Any) -> bool:
        if self._is_owed:  # nobody updated the scaler
            self._is_owed = False
            self.agent.count(Source.OPTIMIZER)
        missed, closes = self.cycle.note(id(optimizer), self.phase)
        if missed:
            self.agent.count(Source.OPTIMIZER)
        return closes


def _is_within(outer: Any, frame: Any) -> bool:
    """Whether `frame` was called from inside `outer`. If not, that step() never came back: it raised."""
    while frame is not None and frame is not outer:
        frame = frame.f_back
    return frame is outer


def watch_scaler(scaler: Any, updates: Updates) -> None:
    step, update = scaler.step, scaler.update

    @functools.wraps(step)
    def noted_step(self: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        seen = updates.agent.updates
        result = step(self, optimizer, *args, **kwargs)
        if updates.agent.updates == seen:
            updates.skipped(optimizer)
        return result

    @functools.wraps(update)
    def noted_update(self: Any, *args: Any, **kwargs: Any) -> None:
        update(self, *args, **kwargs)
        updates.scaler_updated()

    scaler.step, scaler.update = noted_step, noted_update
