"""One process of a task that has claimed a control page, seen from outside."""

from __future__ import annotations

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

    @property
    def is_alive(self) -> bool:
        return self.state != State.ENDED and self.page.claimant() != 0

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
        is_gated = (
            self.has_answered
        )  # before the step: a rank that gates in between is seen as inside, never ahead of itself
        return Standing(self.words[layout.STEP], is_gated)

    def ask(self, depth: int, run_to: int = 0) -> None:
        """Ask for a pause of this depth once step `run_to` is completed, or for none."""
        self.words[layout.RUN_TO] = run_to
        generation = (self.words[layout.REQUEST] >> 8) + 1
        self.words[layout.REQUEST] = generation << 8 | depth
        self._orders.wake()

    def run(self) -> None:
        self.ask(Depth.RUN)

    def wait(self, timeout_s: float) -> None:
        """Until it says something else than when it was last asked for its answer."""
        self._answers.wait(self._seen, timeout_s)
