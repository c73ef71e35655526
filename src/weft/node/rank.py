"""One process of a task that has claimed a control page, seen from outside."""

from __future__ import annotations

from weft.node import processes
from weft.node.gang import Standing
from weft.runtime import layout
from weft.runtime.futex import Waiter
from weft.runtime.layout import Depth, State
from weft.runtime.page import Page


class Rank:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.words = page.words
        self._orders = Waiter(page, layout.REQUEST)
        self._answers = Waiter(page, layout.STATE)
        self._seen = 0
        self._asked: int | None = None

    @property
    def is_alive(self) -> bool:
        return self.state != State.ENDED and self.page.claimant() != 0

    @property
    def pid(self) -> int:
        """Its process, 0 if that has ended."""
        pid = self.words[layout.CLAIM_PID]
        return pid if processes.is_alive(pid, self.words[layout.CLAIM_START]) else 0

    @property
    def world(self) -> int:
        """How many ranks step together with this one; 0 if it is on its own."""
        return self.words[layout.WORLD] if self.words[layout.WORLD] > 1 else 0

    @property
    def state(self) -> int:
        return self.words[layout.STATE] & layout.LOW_BITS

    @property
    def wanted(self) -> int:
        return self.words[layout.REQUEST] & layout.LOW_BITS

    @property
    def has_answered(self) -> bool:
        """It stands at a boundary and has done, or refused, what it was last asked for."""
        self._seen = self.words[layout.STATE]
        is_newest = self._seen >> 8 == self.words[layout.REQUEST] >> 8
        return is_newest and self._seen & layout.LOW_BITS in (State.GATED, State.REFUSED)

    @property
    def is_paused(self) -> bool:
        """It stands at a boundary, and nothing has told it to go on."""
        return self.wanted != Depth.RUN and self.state in (State.GATED, State.REFUSED)

    @property
    def standing(self) -> Standing:
        # The answer between two looks at the step: one that gates in between is looked at again.
        while True:
            step, is_gated = self.words[layout.STEP], self.has_answered
            if step == self.words[layout.STEP]:
                return Standing(step, is_gated)

    @property
    def is_asked(self) -> bool:
        """It has been asked for something through this object."""
        return self._asked is not None

    @property
    def is_superseded(self) -> bool:
        """Somebody else has asked it for something since."""
        return self._asked is not None and self._asked != self.words[layout.REQUEST] >> 8

    def ask(self, depth: int, run_to: int = 0) -> None:
        """Ask for a pause of this depth once step `run_to` is completed, or for none. Asking twice is asking once."""
        self._asked = self.words[layout.REQUEST] >> 8
        if self.wanted == depth and self.words[layout.RUN_TO] == run_to:
            return
        self._asked += 1
        self.words[layout.RUN_TO] = run_to
        self.words[layout.REQUEST] = self._asked << 8 | depth
        self._orders.wake()

    def ask_deeper(self, depth: int) -> None:
        """Ask for another depth where it stands."""
        self.ask(depth, self.words[layout.RUN_TO])

    def wait(self, timeout_s: float) -> None:
        """Until it says something else than when it was last asked for its answer."""
        self._answers.wait(self._seen, timeout_s)
