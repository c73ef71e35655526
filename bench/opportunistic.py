"""A guaranteed job beside an opportunistic one under the daemon, on one core: AntMan's experiments A3 and A1.

What the one loses, and what the other makes of the time that is left; with what weft does, and without. The
opportunistic job is gated for every other block, ABAB in one run: the machine's speed drifts by more than is looked
for, so there are as many blocks as it takes to know the mean within a hundredth, as far as there is time.
"""

from __future__ import annotations

import math
import mmap
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path

import weft
from figures import Figure
from pair import Pair, wait_until, weft_of_classes

HOLDER_WIDTH, WAIT_MS, GUEST_WIDTH = 24, 16.0, 32
BLOCK_S, CONVERGE_S = 2.0, 10.0
FEWEST, MOST, PRECISION = 8, 16, 0.01
"""Blocks beside, and how far their mean may be off by chance (one standard error) when there are no more of them."""
IN_A_ROW = 8
BY_HAND = 40
"""A duty."""
MB = 1 << 20
GUEST_BYTES = 48 * MB
GOAL = 0.03
ANTMAN = "AntMan (recorded): packing slows ESPnet 5.23 x; with its controller as if alone"
NOT_SHOWN = Figure("not shown: only root can give up the right to it", "")
NAIVE = f"{Path(__file__).with_name('naive.py')}:naive"


@dataclass
class Seen:
    """Of each block: by how much the holder is slower, which part of the time the guest computed, and made steps."""

    slower: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)
    stepped: list[float] = field(default_factory=list)

    @property
    def error(self) -> float:
        """Of the mean of how much slower it is."""
        many = len(self.slower)
        return statistics.stdev(self.slower) / many**0.5 if many > 1 else math.inf

    @property
    def is_enough(self) -> bool:
        return len(self.slower) >= FEWEST and self.error <= PRECISION


@dataclass
class Story:
    """Blocks beside and alone in turn: what a block beside is held against are those around it."""

    pair: Pair
    alone_hz: list[float] = field(default_factory=list)

    def rounds(self, into: Seen, policy: str, many: int = 2, then: Callable[[Pair], object] = bool) -> None:
        """`then` is done as soon as the guest has its seat."""
        self.pair.seat(policy)
        then(self.pair)
        before = self._alone_hz()
        for _ in range(many):
            beside = self.pair.beside(BLOCK_S)
            after = self._alone_hz()
            into.slower.append(statistics.mean((before, after)) / beside.rate_hz - 1)
            into.computed.append(beside.guest_computed)
            into.stepped.append(beside.guest_hz * self.pair.guest_step_s)
            before = after
        self.pair.guest.resume()

    def rounds_until_enough(self, into: Seen, policies: Sequence[str], most: int) -> None:
        for policy in cycle(policies):
            if into.is_enough or len(into.slower) >= most:
                return
            self.rounds(into, policy, IN_A_ROW)

    def _alone_hz(self) -> float:
        self.alone_hz.append(self.pair.alone(BLOCK_S).rate_hz)
        return self.alone_hz[-1]

    @property
    def idle(self) -> float:
        """The part of the time in which the holder, alone, waits for its input."""
        return statistics.mean(self.alone_hz) * WAIT_MS / 1e3

    @property
    def floor(self) -> Figure:
        differ = statistics.mean(abs(one / two - 1) for one, two in pairwise(self.alone_hz))
        return Figure(f"    noise floor: alone against alone, {len(self.alone_hz)} blocks, on average", f"{differ:.1%}")


def computing() -> list[Figure]:
    """A3: a holder that waits for input two fifths of its time, and a guest that computes all the time it gets."""
    naive, held_back = Seen(), Seen()
    with weft_of_classes("cpu=1") as client:
        story = Story(_pair(client))
        story.rounds_until_enough(held_back, ("antman", "weft"), MOST)
        story.rounds(naive, NAIVE)
    return [
        Figure("A3: the guaranteed job waits for its input", f"{story.idle:.0%} of the time", peers=ANTMAN),
        *rows("A3: held back (antman and weft in turn)", held_back, story.idle, is_goal=True, key="guaranteed"),
        story.floor,
        *rows("packed naively", naive, story.idle),
    ]


def without_idle_class() -> list[Figure]:
    """The same where the node may not use the idle class: the weight of the guest's session does it."""
    if os.getuid() != 0:
        return [NOT_SHOWN]
    seen = Seen()
    with weft_of_classes("cpu=1", "idle class") as client:
        story = Story(_pair(client))
        story.rounds_until_enough(seen, ("antman",), FEWEST)
    return [*rows("A3: held back without the idle class", seen, story.idle, is_goal=True), story.floor]


def by_duty_alone() -> list[Figure]:
    """And where neither can be had, as in a container, or on a GPU: the duty is all there is.

    On one core this cannot do well. The kernel divides a core between all who want it, so of what a guest computes only
    as much falls into the holder's idle time as that is of all time; the rest is taken from the holder. With an idle
    part i, a guest with a share d of the time slows the holder by about (1 - i) d: within 3 %, at i = 0.38, it gets 5 %
    of the time, an eighth of what is idle. The row at a duty set by hand shows what a looser bound would buy.
    """
    if os.getuid() != 0:
        return [NOT_SHOWN]
    seen, paced = Seen(), Seen()
    with weft_of_classes("cpu=1", "idle class and weights") as client:
        story = Story(_pair(client))
        story.rounds(seen, "antman", IN_A_ROW, then=lambda _: time.sleep(CONVERGE_S))
        story.rounds(paced, NAIVE, then=lambda pair: pair.guest.set_duty(BY_HAND))
    return [
        *rows("held back by its duty alone", seen, story.idle),
        *rows(f"at a duty of {BY_HAND} %, set by hand", paced, story.idle),
        story.floor,
    ]


def _pair(client: weft.Client) -> Pair:
    return Pair(client, [str(HOLDER_WIDTH), str(WAIT_MS)], [str(GUEST_WIDTH), "0"], GUEST_BYTES)


def rows(name: str, seen: Seen, idle: float, *, is_goal: bool = False, key: str = "") -> list[Figure]:
    slower, used = statistics.mean(seen.slower), statistics.mean(seen.computed) / idle
    losses = ("≤ 3 %", slower <= GOAL) if is_goal else ("", None)
    gains = ("≥ 50 %", used >= 0.5) if is_goal else ("", None)
    in_steps = statistics.mean(seen.stepped) / idle
    return [
        Figure(f"{name}: slower by", f"{slower:.1%} ± {seen.error:.1%}", *losses, key=key and f"{key}-slower"),
        Figure(f"    in {len(seen.slower)} blocks", _each([100 * each for each in seen.slower])),
        Figure(
            "    the opportunistic job computes, of the time left idle",
            f"{used:.0%}",
            *gains,
            key=key and f"{key}-idle-used",
        ),
        Figure("    the same in steps, as it makes them alone", f"{in_steps:.0%}"),
    ]


# ---- A1

DEVICE_MB = 136
SLOWER, SETTLE_S = 0.25, 2.0
ROUNDS, BURST_STEPS = 3, 4
HOST_BYTES = 512 * MB


def bursting() -> list[Figure]:
    """A1: some steps of the holder need four times the memory, more than its guest leaves of the device; beside the
    guest and alone in turn. What a job has needed once is kept free for it, so there is a new one each time.

    The first step of a burst is slow alone as well: its memory is touched for the first time. Beside the guest some of
    it goes to disk on top of that.
    """
    beside, alone = list[list[float]](), list[list[float]]()
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, weft_of_classes(f"cpu=1:{DEVICE_MB}M") as client:
        file = Path(folder) / "bursts"
        pair = Pair(client, [str(HOLDER_WIDTH), str(WAIT_MS), str(file)], [str(GUEST_WIDTH), "0"], GUEST_BYTES)
        for each in range(ROUNDS):
            if each:
                pair.hold_anew()
            pair.seat("antman")
            beside.append(_burst_ms(client, pair, file))
            after = pair.guest.step
            wait_until(lambda after=after: pair.guest.step > after, "the guest goes on", 90)  # type: ignore[misc]
            pair.part()
            alone.append(_burst_ms(client, pair, file))
        states = [client.status(job_id)["state"] for job_id in (pair.holder_id, pair.guest_id)]
    usual = [[statistics.median(steps) for steps in zip(*bursts, strict=True)] for bursts in (beside, alone)]
    slow = sum(b > (1 + SLOWER) * a for b, a in zip(*usual, strict=True))
    step_ms = statistics.median(usual[1])
    costs = [(sum(b) - sum(a)) / step_ms for b, a in zip(beside, alone, strict=True)]
    cost = statistics.median(costs)
    return [
        Figure(f"A1: a burst of {BURST_STEPS} steps, alone, the medians of {ROUNDS}", _in_ms(usual[1])),
        Figure("    beside a guest", _in_ms(usual[0])),
        Figure(f"    slower by more than {SLOWER:.0%}", f"{slow} of {BURST_STEPS} steps", "≤ 1", slow <= 1),
        Figure("    what a burst costs in all, in such steps", f"{cost:.1f} ({_each(costs)})"),
        Figure("    then the two are", " and ".join(states), "nobody failed", states == ["RUNNING", "PAUSED"]),
    ]


def _burst_ms(client: weft.Client, pair: Pair, file: Path) -> list[float]:
    """How long the next steps take, if they need that much, after a while of usual ones."""
    pair.block(SETTLE_S)
    before = len(list(client.logs(pair.holder_id)))
    _get_memory_from_the_host()
    waiting = file.with_suffix(".new")
    waiting.write_text(str(BURST_STEPS))
    waiting.rename(file)
    wait_until(lambda: len(list(client.logs(pair.holder_id))) >= before + BURST_STEPS, "a burst is over")
    return [float(line) for line in list(client.logs(pair.holder_id))[before:]]


def _get_memory_from_the_host() -> None:
    """A virtual machine that has not used a page for a while gets it anew from its host: here in 20 µs each, ten times
    what the kernel takes by itself. A burst's pages would cost more than the burst, beside a guest or alone."""
    with mmap.mmap(-1, HOST_BYTES) as pages:
        for at in range(0, HOST_BYTES, mmap.PAGESIZE):
            pages[at] = 1


def _in_ms(steps_ms: Sequence[float]) -> str:
    return ", ".join(f"{each:.0f}" for each in steps_ms) + " ms"


def _each(many: Sequence[float]) -> str:
    return ", ".join(f"{each:.1f}" for each in many)


PARTS = {
    "A3": computing,
    "A3 without the idle class": without_idle_class,
    "A1": bursting,
}
