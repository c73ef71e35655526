"""One process of a task that has claimed a control page, seen from outside."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from weft.core.value import value
from weft.node.task.control_page import ControlPage, Words
from weft.node.task.page_snapshot import Snapshot
from weft.runtime.page import layout
from weft.runtime.page.layout import RankState, StepSource

LOOKS = 8


@value
class RankStatus:
    """What one rank's page says. Of its device memory and turns only the native library knows: else all that is 0."""

    pid: int
    rank: int
    state: str
    step: int
    step_s: float | None
    source: str
    host_bytes: int
    persistent_bytes: int
    ephemeral_bytes: int
    overflow_bytes: int
    peak_bytes: int
    copied_out_bytes: int
    turns: int
    turn_waited_s: float
    idle_s: float
    paused_s: float
    checkpoint_step: int | None
    can_checkpoint: bool
    can_swap: bool
    is_in_lane: bool
    native_version: int
    metrics: dict[str, float]


def rank_status(look: Snapshot, *, is_alive: bool) -> RankStatus:
    words = look.words
    return RankStatus(
        pid=words[layout.CLAIM_PID],
        rank=words[layout.RANK],
        state=RankState.NAMES[look.state] if is_alive else "ended",
        step=words[layout.STEP],
        step_s=statistics.median(look.durations_ns) / 1e9 if look.durations_ns else None,
        source=StepSource.NAMES[words[layout.SOURCE]],
        host_bytes=words[layout.HOST],
        persistent_bytes=words[layout.PERSISTENT],
        ephemeral_bytes=words[layout.EPHEMERAL],
        overflow_bytes=words[layout.OVERFLOW],
        peak_bytes=words[layout.PEAK],
        copied_out_bytes=words[layout.COPIED_OUT],
        turns=words[layout.TURNS],
        turn_waited_s=words[layout.TURN_WAITED] / 1e9,
        idle_s=words[layout.IDLE] / 1e9,
        paused_s=words[layout.PAUSED] / 1e9,
        checkpoint_step=words[layout.CHECKPOINT] - 1 if words[layout.CHECKPOINT] else None,
        can_checkpoint=look.has(layout.CAN_CHECKPOINT),
        can_swap=look.has(layout.CAN_SWAP),
        is_in_lane=look.has(layout.IN_LANE),
        native_version=words[layout.NATIVE],
        metrics=look.metrics,
    )


@value
class RankPosition:
    """One rank as it was last seen."""

    step: int
    is_gated: bool


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
        """Its process, by the claim that the kernel keeps; 0 if that has ended."""
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
    def position(self) -> RankPosition:
        """Its step and whether it stands there, as two looks agree. A step that changes all the time is not one that
        others wait for."""
        seen = self.look()
        for _ in range(LOOKS):
            before, seen = seen, self.look()
            if before.step == seen.step:
                break
        self._seen = before.words[layout.STATE]
        return RankPosition(before.step, before.has_answered)

    @property
    def is_asked(self) -> bool:
        """It has been asked for something through this object."""
        return self._asked is not None

    @property
    def is_superseded(self) -> bool:
        """It has been asked for something else since."""
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
