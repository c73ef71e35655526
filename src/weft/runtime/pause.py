"""Pausing at a step boundary as the page requests: waiting, at one depth or deeper, and leaving."""

import os
import sys
import threading
from contextlib import suppress
from typing import Any, Callable, NoReturn, Optional

from .allocator import Native, NativeError
from .log import warn
from .page import layout
from .page.futex import Waiter
from .page.layout import Depth, RankState
from .page.page_file import Page
from .torch_process import drop_caches, finish_device_work

NO_PARTS = "the script has not called weft.init(model=…, optimizer=…), so nothing is known to save"
NO_LIBRARY = "swap-out needs weft's native library, and nothing in this process is served by it"
HEARTBEAT_S = 1.0


class DepthRefusedError(Exception):
    """A pause cannot reach the requested depth. The message goes to the coordinator."""


class Pausing:
    """One process's pauses. An answer carries the generation of the order it answers."""

    def __init__(self, page: Page, save: Callable[[], None], beat: Callable[[], None]) -> None:
        self._page = page
        self._words = page.words
        self._save = save
        self._beat = beat
        self.native: Optional[Native] = None
        self._orders = Waiter(page, layout.REQUEST)
        self._answers = Waiter(page, layout.STATE)

    def wait(self, step: int) -> None:
        """Wait here at the depth that the page requests, until it requests none or a later step."""
        words, answered, reached = self._words, 0, Depth.RUN
        try:
            while True:
                order = words[layout.REQUEST]
                depth = order & layout.LOW_BITS
                if depth == Depth.RUN or step < words[layout.RUN_TO]:
                    return
                goal = min(depth, Depth.CHECKPOINT)
                if order != answered and goal > reached:
                    reached = self._deepen(goal, reached)
                    words[layout.DEPTH] = reached
                if depth == Depth.LEAVE and reached < Depth.CHECKPOINT:
                    return  # to leave without having saved would lose the run
                if depth == Depth.LEAVE:
                    self._leave(order)
                # STEP and STATE together: a rank seen between the two seems to be inside the next step.
                words[layout.STEP] = step
                self.say(RankState.GATED if reached >= goal else RankState.REFUSED, order)
                answered = order
                self._orders.wait(order, HEARTBEAT_S)
                self._beat()
        finally:
            words[layout.STEP] = step
            self._swap_in()
            if words[layout.STATE] & layout.LOW_BITS != RankState.LEAVING:
                words[layout.DEPTH] = Depth.RUN
                self.say(RankState.RUNNING, words[layout.REQUEST])

    def say(self, state: int, order: int = 0) -> None:
        self._words[layout.STATE] = order & ~layout.LOW_BITS | state
        self._answers.wake()

    def _deepen(self, goal: int, reached: int) -> int:
        """Go deeper towards `goal` and return the depth reached. The page's message says why not deeper."""
        try:
            if reached < Depth.GATE:
                finish_device_work()
                reached = Depth.GATE
            if reached < Depth.DROP_CACHES <= goal:
                drop_caches()
                if self.native is not None:
                    self.native.drop_caches()
                reached = Depth.DROP_CACHES
            if goal == Depth.SWAP_OUT:
                self._swap_out()
                reached = Depth.SWAP_OUT
            elif goal == Depth.CHECKPOINT:
                self._swap_in()
                reached = Depth.DROP_CACHES  # should it not be saved
                self._save()
                reached = Depth.CHECKPOINT
        except (DepthRefusedError, NativeError) as refused:
            self._page.message = str(refused)
        except Exception as error:  # noqa: BLE001 -- from a state_dict, say; the script did not ask for this and continues
            self._page.message = "%s: %s" % (type(error).__name__, error)
        note_resident_bytes(self._words)
        return reached

    def _swap_out(self) -> None:
        if self.native is None:
            raise DepthRefusedError(NO_LIBRARY)
        try:
            self.native.swap_out()
        except NativeError as error:
            raise DepthRefusedError(str(error).replace("no swap-out: ", "")) from error  # the coordinator says it

    def _swap_in(self) -> None:
        """Restore swapped-out memory; what cannot be moved back stays usable where it is."""
        if self.native is not None:
            try:
                self.native.swap_in()
            except NativeError as error:
                warn("%s; the job continues, slower" % error)

    def _leave(self, order: int) -> NoReturn:
        """End the process by an uncaught exception: the script closes what it has open."""
        self.say(RankState.LEAVING, order)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(leaving_code())
        if self.native is not None:
            self.native.leave()
        leave_now()  # an exception would end this thread alone


def leaving_code() -> int:
    """torchrun takes any code but 0 for a failure, ends the other ranks and may restart them all."""
    return 0 if "TORCHELASTIC_RUN_ID" in os.environ else layout.LEFT_EXIT_CODE


def leave_now() -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(leaving_code())


def note_resident_bytes(words: Any) -> None:
    """Write the process's resident memory to the page; unchanged if it cannot be read now."""
    with suppress(OSError), open("/proc/self/statm", "rb") as statm:
        words[layout.HOST] = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
