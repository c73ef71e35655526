"""This process towards its control page: it counts steps, and at each boundary does what the page requests."""

import os
from threading import RLock
from time import monotonic_ns
from typing import Any, Callable, Dict, Optional

from . import allocator
from .allocator import Native, NativeError
from .log import warn, warn_once
from .page import layout
from .page.layout import RankState, StepSource
from .page.page_file import Metrics, Page, PageError, claim_page
from .pause import NO_PARTS, DepthRefusedError, Pausing, leave_now, note_resident_bytes
from .torch_process import is_loader_worker, process_group

WEIGH_EVERY_NS = 1_000_000_000


class Agent:
    """Claims the page when the first step is seen, not before.

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
        """A forked child is another process: the claim, the page and the steps belong to its parent."""
        self.step = 0
        self.source = StepSource.NONE
        self._page: Optional[Page] = None
        self._words: Any = None
        self._unclaimed: Optional[Native] = None  # serves this process, but has no page yet
        self._native: Optional[Native] = None
        self._lane = 0  # the page's value when we joined it
        self._lock = RLock()  # the page is claimed by one thread, and turns are released and taken by one at a time
        self._pausing: Optional[Pausing] = None
        self._metrics: Optional[Metrics] = None
        self._is_off = False
        self._began_ns = 0
        self._weighed_ns = 0
        self._durations = 0

    def count(self, source: int) -> None:
        """A step ended some time ago: count it, without a boundary."""
        if source == self.source or self.begin(source):
            self.step += 1
            self._words[layout.STEP] = self.step
            self._began_ns = 0

    def boundary(self, source: int) -> None:
        """A step has just ended. Costs a few microseconds when nothing is requested."""
        if self._is_off or source < self.source:
            return
        with self._lock:
            if source == self.source or self.begin(source):
                if self._unclaimed is not None:
                    self._be_served()
                self._end_step(self._native)

    def _end_step(self, native: Optional[Native]) -> None:
        # Rest first: the idle time that the duty inserts there is part of `not_own_ns`.
        not_own_ns = 0 if native is None else native.rest()
        words, now = self._words, monotonic_ns()
        self.step += 1
        if self._began_ns:
            duration_ns = max(0, now - self._began_ns - not_own_ns)
            words[layout.DURATIONS + self._durations % layout.DURATIONS_LENGTH] = duration_ns
            self._durations += 1
            words[layout.DURATIONS_COUNT] = self._durations
        words[layout.HEARTBEAT] = self._began_ns = now
        if now - self._weighed_ns > WEIGH_EVERY_NS:
            self._weighed_ns = now
            note_resident_bytes(words)
        if words[layout.REQUEST] & layout.LOW_BITS:
            self._pause(now)
        words[layout.STEP] = self.step
        if native is not None:
            if words[layout.LANE] != self._lane:
                self._change_lane(native)
            native.go()
            self._began_ns = monotonic_ns()

    def serve(self) -> None:
        """PyTorch was just imported: the native library, if preloaded, serves its allocations from now on.

        The page is handed to it once the stepping thread has claimed one.
        """
        self._unclaimed = allocator.serve(self.path, self._page)

    def begin(self, source: int, step: int = 0) -> bool:
        """Steps come from `source` from now on, unless a more certain source is in use. Counting restarts."""
        with self._lock:
            if source == self.source:  # another thread was first
                return True
            if self._is_off or source < self.source or not (self._words is not None or self._claim()):
                return False
            self.source, self.step, self._began_ns = source, step, 0
            self._words[layout.SOURCE] = source
            self._words[layout.STEP] = step
            return True

    def end(self) -> None:
        """The interpreter ends; all other exit handlers have run."""
        if self._pausing is None:
            return
        self._leave_library()
        state = self._words[layout.STATE] & layout.LOW_BITS
        if state == RankState.RUNNING:
            self._pausing.say(RankState.ENDED)
        elif state == RankState.LEAVING and self._words[layout.WORLD] > 1:
            leave_now()  # gloo's threads sometimes abort an interpreter at its end, which would look like a failure

    def give_up(self, why: str) -> None:
        """Continue as if bare, with a warning: a script must not fail because its page is unusable."""
        self._is_off = True
        self._leave_library()
        warn("%s; continuing without step boundaries" % why)

    def can_save(self, is_able: bool) -> None:
        self._show_ability(layout.CAN_CHECKPOINT, is_able)

    def _show_ability(self, ability: int, is_able: bool) -> None:
        if self._words is not None:
            others = self._words[layout.ABILITIES] & ~ability
            self._words[layout.ABILITIES] = others | ability if is_able else others

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
            page = claim_page(self.path)
        except (OSError, PageError) as error:
            self.give_up(str(error))
            return False
        self._page, self._words = page, page.words
        self._words[layout.CHECKPOINT] = self._checkpoint
        self._metrics = Metrics(page)
        self._pausing = Pausing(page, lambda: self.save(), self._beat)
        self._note_rank()
        if self._unclaimed is not None:
            self._be_served()
        self._pausing.say(RankState.RUNNING)
        return True

    def _be_served(self) -> None:
        native, self._unclaimed = self._unclaimed, None
        assert native is not None
        assert self._page is not None
        assert self._pausing is not None
        try:
            native.claim(self._page)
        except NativeError as error:
            warn("the native library cannot serve this process: %s" % error)
            return
        self._native = self._pausing.native = native
        self._show_ability(layout.CAN_SWAP, native.can_swap)
        self._join_lane(native)

    def _join_lane(self, native: Native) -> None:
        assert self._page is not None
        self._lane = self._words[layout.LANE]
        self._show_ability(layout.IN_LANE, allocator.join_lane(native, self._page))

    def _change_lane(self, native: Native) -> None:
        """Between two steps. Without room to move the live memory, it is tried again after the next step."""
        try:
            native.leave_lane()
        except NativeError as error:
            warn_once("the lane cannot be left: %s" % error)
            return
        self._join_lane(native)

    def _leave_library(self) -> None:
        """Leave the lane and the duty. What was allocated stays where it is."""
        self._unclaimed = None
        if self._native is not None and self._lock.acquire(blocking=False):  # else a thread is at a boundary
            self._show_ability(layout.IN_LANE, False)
            self._native.leave()
            self._native = None
            self._lock.release()

    def _pause(self, began_ns: int) -> None:
        assert self._pausing is not None
        self._note_rank()
        if self._native is not None:
            self._native.let_pass()
        try:
            self._pausing.wait(self.step)
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
    raise DepthRefusedError(NO_PARTS)
