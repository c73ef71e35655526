"""The job's side of the control page: it counts steps, and at each boundary does what the page asks for."""

import atexit
import os
import struct
import sys
import threading
from time import monotonic_ns
from typing import Any, Callable, Dict, Optional

from . import layout
from .futex import Waiter
from .layout import Depth, Source, State
from .page import Page, PageError, claimed_beside, create, open_page, start_time

HEARTBEAT_S = 1.0
HOST_BYTES_EVERY_NS = 1_000_000_000
MOST_RANKS = 1024
OF_THE_JOB = range(layout.CLAIM_PID, layout.PAGE_BYTES // 8)


class RefusedError(Exception):
    """A pause cannot go as deep as it was asked to. The message is for whoever asked."""


class Agent:
    """This process, as the control page sees it. It claims the page when the first step is seen, not before.

    Processes that only import torch (torchrun itself, DataLoader workers) never do, and ranks that find it taken claim
    a page beside it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.save: Callable[[], None] = _nothing_to_save
        self._forget()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.end)

    def _forget(self) -> None:
        """A forked child is another process: the claim, the page and the steps are its parent's."""
        self.step = 0
        self.source = Source.NONE
        self.page: Optional[Page] = None
        self._words: Any = None
        self._is_off = False
        self._began_ns = 0
        self._weighed_ns = 0
        self._durations = 0
        self._metrics: Dict[str, int] = {}

    # ---- steps -----------------------------------------------------------------------------------------------------

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
        words[layout.STEP] = self.step
        words[layout.HEARTBEAT] = self._began_ns = now
        if now - self._weighed_ns > HOST_BYTES_EVERY_NS:
            self._weighed_ns = now
            words[layout.HOST] = _resident_bytes()
        if words[layout.REQUEST] & layout.LOW_BITS:
            self._pause()

    def begin(self, source: int, step: int = 0) -> bool:
        """Steps are told by `source` from now on, if nothing more certain tells them. Counting starts anew."""
        if self._is_off or source < self.source or not (self._words is not None or self._claim()):
            return False
        self.source, self.step, self._began_ns = source, step, 0
        self._words[layout.SOURCE] = source
        self._words[layout.STEP] = step
        return True

    def end(self) -> None:
        if self._words is not None and self._words[layout.STATE] & layout.LOW_BITS == State.RUNNING:
            self._say(State.ENDED)

    # ---- the claim -------------------------------------------------------------------------------------------------

    def _claim(self) -> bool:
        if _is_loader_worker():
            self._is_off = True
            return False
        try:
            page = self._claim_one()
        except (OSError, PageError) as error:
            self.give_up(str(error))
            return False
        words = page.words
        for word in OF_THE_JOB:
            words[word] = 0
        words[layout.CLAIM_PID] = os.getpid()
        words[layout.CLAIM_START] = start_time(os.getpid())
        self.page, self._words = page, words
        self._orders, self._answers = Waiter(page, layout.REQUEST), Waiter(page, layout.STATE)
        self._note_rank()
        self._say(State.RUNNING)
        return True

    def _claim_one(self) -> Page:
        first = open_page(self.path)
        if first.claim():
            return first
        for number in range(1, MOST_RANKS):
            page = _open_or_make(claimed_beside(self.path, number), first)
            if page.claim():
                page.words[layout.RUN_TO] = first.words[layout.RUN_TO]
                page.words[layout.REQUEST] = first.words[layout.REQUEST]
                first.close()
                return page
            page.close()
        raise PageError("%s has %d claimed pages beside it" % (self.path, MOST_RANKS))

    def give_up(self, why: str) -> None:
        """Run on as if bare, and say so: a page that cannot be used is no reason for a script to fail."""
        self._is_off = True
        print("weft: %s; running on without step boundaries" % why, file=sys.stderr)

    def _note_rank(self) -> None:
        distributed = sys.modules.get("torch.distributed")
        if distributed and distributed.is_available() and distributed.is_initialized():
            self._words[layout.RANK] = distributed.get_rank()
            self._words[layout.WORLD] = distributed.get_world_size()

    # ---- pauses ----------------------------------------------------------------------------------------------------

    def can_save(self, is_able: bool) -> None:
        if self._words is not None:
            self._words[layout.ABILITIES] = layout.CAN_CHECKPOINT if is_able else 0

    def _pause(self) -> None:
        """Stand here, as deep as the page asks, until it asks for nothing more or for a later step."""
        words, began = self._words, monotonic_ns()
        self._note_rank()
        reached, state = Depth.RUN, State.GATED
        try:
            while True:
                order = words[layout.REQUEST]
                depth = order & layout.LOW_BITS
                if depth == Depth.RUN or self.step < words[layout.RUN_TO]:
                    return
                if depth == Depth.LEAVE:
                    self._leave()
                if depth > reached:
                    reached, state = self._deepen(depth)
                    words[layout.DEPTH] = reached
                self._say(state, order)
                self._orders.wait(order, HEARTBEAT_S)
                words[layout.HEARTBEAT] = monotonic_ns()
        finally:
            if words[layout.STATE] & layout.LOW_BITS != State.LEAVING:
                words[layout.DEPTH] = Depth.RUN
                self._say(State.RUNNING, words[layout.REQUEST])
            self._began_ns = monotonic_ns()
            words[layout.PAUSED] += self._began_ns - began

    def _deepen(self, depth: int) -> Any:
        """Go as deep as asked, or as deep as possible with the reason why not deeper: the depth reached, the state."""
        reached = Depth.GATE
        try:
            _finish_device_work()
            if depth >= Depth.DROP_CACHES:
                _drop_caches()
                reached = Depth.DROP_CACHES
            self._words[layout.HOST] = _resident_bytes()
            if depth > Depth.DROP_CACHES:
                DEEPER[depth](self)
                reached = depth
        except RefusedError as refused:
            self._page_message(str(refused))
            return depth, State.REFUSED
        return reached, State.GATED

    def _leave(self) -> None:
        self._say(State.LEAVING, self._words[layout.REQUEST])
        # torchrun takes any code but 0 for a failure, ends the other ranks and may start them all anew.
        code = 0 if "TORCHELASTIC_RUN_ID" in os.environ else layout.LEFT_EXIT_CODE
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(code)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # an exception would end this thread alone

    def _say(self, state: int, order: int = 0) -> None:
        self._words[layout.STATE] = order & ~layout.LOW_BITS | state
        self._answers.wake()

    def _page_message(self, text: str) -> None:
        assert self.page is not None
        self.page.message = text

    # ---- what the script tells -------------------------------------------------------------------------------------

    def saved(self, step: int) -> None:
        if self._words is not None:
            self._words[layout.CHECKPOINT] = step + 1

    def report(self, name: str, value: float) -> None:
        """The first eight names are kept."""
        if self._words is None or self.page is None:
            return
        slot = self._metrics.get(name)
        if slot is None:
            slot = len(self._metrics)
            if slot == layout.METRICS_LENGTH:
                return
            self._metrics[name] = slot
            self.page.write_text(layout.METRICS + slot * layout.METRIC_WORDS, name, layout.METRIC_NAME_BYTES)
        word = layout.METRICS + slot * layout.METRIC_WORDS + layout.METRIC_WORDS - 1
        struct.pack_into("d", self.page.map, word * 8, value)
        self._words[layout.METRICS_COUNT] = len(self._metrics)


_agents: Dict[str, Agent] = {}


def the_agent(path: str) -> Agent:
    """This process's agent for the page at `path`; the same one for the hooks and for the SDK."""
    if path not in _agents:
        _agents[path] = Agent(path)
    return _agents[path]


def _swap_out(_agent: Agent) -> None:
    raise RefusedError("swap-out needs weft's native library, without which this job runs")


DEEPER: Dict[int, Callable[[Agent], None]] = {Depth.SWAP_OUT: _swap_out, Depth.CHECKPOINT: lambda agent: agent.save()}


def _nothing_to_save() -> None:
    raise RefusedError("the script has not called weft.init(model=…, optimizer=…), so nothing is known to save")


def _open_or_make(path: str, first: Page) -> Page:
    if not os.path.exists(path):
        try:
            page = create(path)
        except FileExistsError:
            return open_page(path)
        for word in range(layout.ATTEMPT, layout.CLAIM_PID):
            page.words[word] = first.words[word]
        return page
    return open_page(path)


def _is_loader_worker() -> bool:
    loading = sys.modules.get("torch.utils.data")
    return loading is not None and loading.get_worker_info() is not None


def _finish_device_work() -> None:
    """Kernels are launched ahead of time: without this a paused job would go on computing."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.synchronize()


def _drop_caches() -> None:
    """Give back what the process keeps but does not use."""
    cuda = sys.modules.get("torch.cuda")
    if cuda and cuda.is_initialized():
        cuda.empty_cache()
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc alone has it
    if trim is not None:
        trim(0)


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
