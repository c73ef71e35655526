"""One process of a task that has claimed a control page, seen from outside."""

from __future__ import annotations

from collections.abc import Iterable

from weft.node.control_page import ControlPage, Words
from weft.node.gang import Standing
from weft.node.snapshot import Snapshot
from weft.runtime.page import layout
from weft.runtime.page.layout import RankState

LOOKS = 8


class Rank:
    """Every look is checked: DamagedPageError where the page says what cannot be."""

    def __init__(self, page: ControlPage) -> None:
        self.page = page
        self._seen = 0
        self._asked: int | None = None

    @property
    def words(self) -> Words:
        """To write."""
        return self.page.words

    def look(self) -> Snapshot:
        return self.page.look()

    @property
    def is_alive(self) -> bool:
        return self.page.claimant() != 0 and self.state != RankState.ENDED

    @property
    def pid(self) -> int:
        """Its process, as the kernel knows who holds the claim; 0 if that has ended."""
        return max(0, self.page.claimant())  # below 0: it is in a container that we do not see into

    @property
    def world(self) -> int:
        """How many ranks step together with this one; 0 if it is on its own."""
        world = self.look().words[layout.WORLD]
        return world if world > 1 else 0

    @property
    def state(self) -> int:
        return self.look().state

    @property
    def wanted(self) -> int:
        return self.look().wanted

    @property
    def has_answered(self) -> bool:
        """It stands at a boundary and has done, or refused, what it was last asked for."""
        seen = self.look()
        self._seen = seen.words[layout.STATE]
        return seen.has_answered

    @property
    def is_paused(self) -> bool:
        """It stands at a boundary, and nothing has told it to go on."""
        return self.look().is_paused

    @property
    def standing(self) -> Standing:
        """Its step and whether it stands there, as two looks agree. A step that changes all the time is not a step that
        anybody waits for."""
        seen = self.look()
        for _ in range(LOOKS):
            before, seen = seen, self.look()
            if before.step == seen.step:
                break
        self._seen = before.words[layout.STATE]
        return Standing(before.step, before.has_answered)

    @property
    def is_asked(self) -> bool:
        """It has been asked for something through this object."""
        return self._asked is not None

    @property
    def is_superseded(self) -> bool:
        """Somebody else has asked it for something since."""
        return self._asked is not None and self._asked != self.look().words[layout.REQUEST] >> 8

    def ask(self, depth: int, run_to: int = 0) -> None:
        """Ask for a pause of this depth once step `run_to` is completed, or for none. Asking twice is asking once."""
        seen = self.look()
        self._asked = seen.words[layout.REQUEST] >> 8
        if seen.wanted == depth and seen.words[layout.RUN_TO] == run_to:
            return
        self._asked += 1
        self.words[layout.RUN_TO] = run_to
        self.words[layout.REQUEST] = self._asked << 8 | depth
        self.page.wake(layout.REQUEST)

    def ask_deeper(self, depth: int) -> None:
        """Ask for another depth where it stands."""
        self.ask(depth, self.look().words[layout.RUN_TO])

    def wait(self, timeout_s: float) -> None:
        """Until it says something else than when it was last asked for its answer."""
        self.page.wait(layout.STATE, self._seen, timeout_s)


def furthest_behind(ranks: Iterable[Rank]) -> Snapshot:
    """What the slowest of them says."""
    return min((rank.look() for rank in ranks), key=lambda look: look.step)
