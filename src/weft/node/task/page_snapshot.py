"""A control page at one instant, every value of it checked.

The job can write anything to its page at any time, so nothing of it is used before `checked` has seen it. A value out
of its bounds cannot have been written by weft's runtime: the page is damaged, and so is everything else on it.
"""

from __future__ import annotations

import struct

from weft.core.errors import WeftError
from weft.core.value import value
from weft.runtime.page import layout
from weft.runtime.page.layout import Depth, RankState, StepSource

MOST_PID = (1 << 22) - 1  # the kernel's own bound
MOST_RANKS = 1 << 20
MOST_STEPS = 1 << 53  # whole numbers up to here are exact in JSON and in a double
MOST_BYTES = 1 << 50  # of memory; the sum over all ranks fits into the 64 bits of a database
MOST_NS = 1 << 62
MOST_GENERATIONS = 1 << 55  # a request can still be counted up
ENDLESS = (1 << 63) - 1

LARGEST = {
    "LAUNCHER_PID": MOST_PID,
    "LAUNCHER_START": ENDLESS,
    "TASK_PID": MOST_PID,
    "TASK_START": ENDLESS,
    "REQUEST": MOST_GENERATIONS << 8 | layout.LOW_BITS,
    "RUN_TO": MOST_STEPS,
    "DUTY": 100,
    "STOPPED": MOST_GENERATIONS,
    "CLAIM_PID": MOST_PID,
    "CLAIM_START": ENDLESS,
    "RANK": MOST_RANKS,
    "WORLD": MOST_RANKS,
    "STATE": MOST_GENERATIONS << 8 | layout.LOW_BITS,
    "STEP": MOST_STEPS,
    "HEARTBEAT": MOST_NS,
    "SOURCE": len(StepSource.NAMES) - 1,
    "PERSISTENT": MOST_BYTES,
    "EPHEMERAL": MOST_BYTES,
    "HOST": MOST_BYTES,
    "OVERFLOW": MOST_BYTES,
    "CHECKPOINT": MOST_STEPS,
    "DEPTH": len(Depth.NAMES) - 1,
    "PAUSED": MOST_NS,
    "DURATIONS_COUNT": MOST_STEPS,
    "IDLE": MOST_NS,
    "TURNS": ENDLESS,
    "TURN_WAITED": MOST_NS,
    "COPIED_OUT": ENDLESS,
    "PEAK": MOST_BYTES,
    "NATIVE": 1 << 32,
    "MESSAGE_LENGTH": layout.MESSAGE_BYTES,
    "METRICS_COUNT": layout.METRICS_LENGTH,
}
BOUNDS = (
    *((getattr(layout, name), name, largest) for name, largest in LARGEST.items()),
    *((layout.DURATIONS + slot, f"DURATIONS[{slot}]", MOST_NS) for slot in range(layout.DURATIONS_LENGTH)),
)
WHOLE = struct.Struct(f"={layout.PAGE_BYTES // 8}Q")


class DamagedPageError(WeftError):
    """The control page at `path` says what no runtime of weft writes; its task is lost, and no other is."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"its control page is damaged: {why}", "has the job written to it? nothing but weft should")
        self.path = path


@value
class Snapshot:
    """What a page says. `words` are all of it; those that are indices, counts, pids and times are within bounds."""

    words: tuple[int, ...]
    content: bytes

    @property
    def is_claimed(self) -> bool:
        return self.words[layout.CLAIM_PID] != 0

    @property
    def wanted(self) -> int:
        return self.words[layout.REQUEST] & layout.LOW_BITS

    @property
    def state(self) -> int:
        return self.words[layout.STATE] & layout.LOW_BITS

    @property
    def step(self) -> int:
        return self.words[layout.STEP]

    @property
    def has_answered(self) -> bool:
        """It stands at a boundary and has done, or refused, what it was last asked for."""
        is_newest = self.words[layout.STATE] >> 8 == self.words[layout.REQUEST] >> 8
        return is_newest and self.state in (RankState.GATED, RankState.REFUSED)

    @property
    def is_paused(self) -> bool:
        """It stands at a boundary, and nothing has told it to go on."""
        return self.wanted != Depth.RUN and self.state in (RankState.GATED, RankState.REFUSED)

    def has(self, ability: int) -> bool:
        return bool(self.words[layout.ABILITIES] & ability)

    @property
    def durations_ns(self) -> tuple[int, ...]:
        """Of the steps in the ring, the oldest first."""
        count = self.words[layout.DURATIONS_COUNT]
        steps = range(max(0, count - layout.DURATIONS_LENGTH), count)
        return tuple(self.words[layout.DURATIONS + step % layout.DURATIONS_LENGTH] for step in steps)

    @property
    def message(self) -> str:
        return self._text(layout.MESSAGE, self.words[layout.MESSAGE_LENGTH])

    @property
    def metrics(self) -> dict[str, float]:
        """What the script reports. A loss may well be infinite or no number at all."""
        found: dict[str, float] = {}
        for slot in range(self.words[layout.METRICS_COUNT]):
            word = layout.METRICS + slot * layout.METRIC_WORDS
            name = self._text(word, layout.METRIC_NAME_BYTES).rstrip("\0 ")
            (found[name],) = struct.unpack_from("d", self.content, word * 8 + layout.METRIC_NAME_BYTES)
        return found

    def _text(self, word: int, length: int) -> str:
        """For people: nothing in it moves a cursor or clears a screen."""
        text = self.content[word * 8 : word * 8 + length].decode("utf-8", "replace").rstrip("\0")
        return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def checked(path: str, content: bytes) -> Snapshot:
    """The page with this content, or DamagedPageError."""
    if len(content) != layout.PAGE_BYTES:
        raise DamagedPageError(path, f"{len(content)} bytes are left of {layout.PAGE_BYTES}")
    words = WHOLE.unpack(content)
    if words[layout.MAGIC] != layout.PAGE_MAGIC or words[layout.SIZE] != layout.PAGE_BYTES:
        raise DamagedPageError(path, "its first words are not those of a control page")
    if words[layout.VERSION] not in layout.READABLE_VERSIONS:
        raise DamagedPageError(path, f"VERSION is {words[layout.VERSION]}")
    for word, name, largest in BOUNDS:
        if words[word] > largest:
            raise DamagedPageError(path, f"{name} is {words[word]}, which is above {largest}")
    if not words[layout.DUTY]:
        raise DamagedPageError(path, "DUTY is 0, which is below 1")
    for name, word, names in (("REQUEST", layout.REQUEST, Depth.NAMES), ("STATE", layout.STATE, RankState.NAMES)):
        if words[word] & layout.LOW_BITS >= len(names):
            raise DamagedPageError(path, f"the lower byte of {name} is {words[word] & layout.LOW_BITS}")
    return Snapshot(words, content)
