"""This process, as the control page sees it: it counts steps, and at each boundary looks at what the page asks for."""

import os
import sys
from time import monotonic_ns
from typing import Any, Callable, Dict, Optional

from . import layout
from .claiming import claim, is_loader_worker, process_group
from .layout import Source, State
from .memory import note_resident_bytes
from .metrics import Metrics
from .page import PageError
from .pausing import NO_PARTS, Pausing, RefusedError, leave_now

WEIGH_EVERY_NS = 1_000_000_000


class Agent:
    """It claims the page when the first step is seen, not before.

    Processes that only import torch (torchrun itself, DataLoader workers) never do, and ranks that find it taken claim
    a page beside it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.save: Callable[[], None] = _nothing_to_save
        self.updates = 0  # of optimizers, those inside another one not counted
        self._checkpoint = 0
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """A forked child is another process: the claim, the page and the steps are its parent's."""
        self.step = 0
        self.source = Source.NONE
        self._words: Any = None
        self._pausing: Optional[Pausing] = None
        self._metrics: Optional[Metrics] = None
        self._is_off = False
        self._began_ns = 0
        self._weighed_ns = 0
        self._durations = 0

    def count(self, source: int) -> None:
        """A step has ended, and we stand somewhere after its boundary."""
        if source == self.source or self.begin(source):
            self.step += 1
            self._words[layout.STEP] = self.step
            self._began_ns = 0

    def boundary(self, source: int) -> None:
        """A step has ended just now. Costs a few microseconds when nothing is asked for."""
        if source != self.source and not self.begin(source):
            return
        words, now = self._words, monotonic_ns()
        self.step += 1
        if self._began_ns:
            words[layout.DURATIONS + self._durations % layout.DURATIONS_LENGTH] = now - self._began_ns
            self._durations += 1
            words[layout.DURATIONS_COUNT] = self._durations
        words[layout.HEARTBEAT] = self._began_ns = now
        if now - self._weighed_ns > WEIGH_EVERY_NS:
            self._weighed_ns = now
            note_resident_bytes(words)
        if words[layout.REQUEST] & layout.LOW_BITS:
            self._pause(now)
        words[layout.STEP] = self.step

    def begin(self, source: int, step: int = 0) -> bool:
        """Steps are told by `source` from now on, if nothing more certain tells them. Counting starts anew."""
        if self._is_off or source < self.source or not (self._words is not None or self._claim()):
            return False
        self.source, self.step, self._began_ns = source, step, 0
        self._words[layout.SOURCE] = source
        self._words[layout.STEP] = step
        return True

    def end(self) -> None:
        """The interpreter ends, and everybody else who wanted to know has been told."""
        if self._pausing is None:
            return
        state = self._words[layout.STATE] & layout.LOW_BITS
        if state == State.RUNNING:
            self._pausing.say(State.ENDED)
        elif state == State.LEAVING and self._words[layout.WORLD] > 1:
            leave_now()  # the threads of gloo abort an interpreter at its end now and then, and a failure it would seem

    def give_up(self, why: str) -> None:
        """Run on as if bare, and say so: a page that cannot be used is no reason for a script to fail."""
        self._is_off = True
        print("weft: %s; running on without step boundaries" % why, file=sys.stderr)

    def can_save(self, is_able: bool) -> None:
        if self._words is not None:
            self._words[layout.ABILITIES] = layout.CAN_CHECKPOINT if is_able else 0

    def saved(self, step: int) -> None:
        self._checkpoint = step + 1
        if self._words is not None:
            self._words[layout.CHECKPOINT] = self._checkpoint

    def report(self, name: str, value: float) -> None:
        if self._metrics is not None:
            self._metrics.set(name, value)

    def _claim(self) -> bool:
        if is_loader_worker():
            self._is_off = True
            return False
        try:
            page = claim(self.path)
        except (OSError, PageError) as error:
            self.give_up(str(error))
            return False
        self._words = page.words
        self._words[layout.CHECKPOINT] = self._checkpoint
        self._metrics = Metrics(page)
        self._pausing = Pausing(page, lambda: self.save(), self._beat)
        self._note_rank()
        self._pausing.say(State.RUNNING)
        return True

    def _pause(self, began_ns: int) -> None:
        assert self._pausing is not None
        self._note_rank()
        try:
            self._pausing.stand(self.step)
        finally:
            self._began_ns = monotonic_ns()
            self._words[layout.PAUSED] += self._began_ns - began_ns

    def _beat(self) -> None:
        self._words[layout.HEARTBEAT] = monotonic_ns()

    def _note_rank(self) -> None:
        group = process_group()
        if group is not None:
            self._words[layout.RANK] = group.get_rank()
            self._words[layout.WORLD] = group.get_world_size()


_agents: Dict[str, Agent] = {}


def the_agent(path: str) -> Agent:
    """This process's agent for the page at `path`; the same one for the hooks and for the SDK."""
    if path not in _agents:
        _agents[path] = Agent(path)
    return _agents[path]


def _nothing_to_save() -> None:
    raise RefusedError(NO_PARTS)
