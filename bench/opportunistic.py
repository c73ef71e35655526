"""A guaranteed job beside an opportunistic one under the daemon, on one core: AntMan's experiments A3 and A1.

What the one loses, and what the other makes of the time that is left; with what weft does, and without. `weft hold` and
`weft release` of the opportunistic job part the blocks alone from those beside, ABAB in one run.
"""

from __future__ import annotations

import mmap
import os
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import weft
from figures import Figure
from pair import Pair, wait_until, weft_of_classes
from weft.node import idling

HOLDER_WIDTH, WAIT_MS, GUEST_WIDTH = 24, 16.0, 32
BLOCK_S, CONVERGE_S = 4.0, 10.0
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
    """By how much the holder is slower, each time, and the guest's share of the time."""

    slower: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)


@dataclass
class Story:
    """Blocks alone and beside in turn: what a block beside is held against is what is around it."""

    pair: Pair
    alone_hz: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.alone_hz.append(self.pair.alone(BLOCK_S).rate_hz)

    def round(self, into: Seen, policy: str, converge_s: float = 0.0, then: Callable[[Pair], object] = bool) -> None:
        """`then` is done as soon as the guest has its seat."""
        beside = self.pair.beside(policy, BLOCK_S, converge_s, lambda: then(self.pair))
        self.alone_hz.append(self.pair.alone(BLOCK_S).rate_hz)
        into.slower.append(statistics.mean(self.alone_hz[-2:]) / beside.rate_hz - 1)
        into.shares.append(beside.guest_hz * self.pair.guest_step_s)

    @property
    def idle(self) -> float:
        """The part of the time in which the holder, alone, waits for its input."""
        return statistics.mean(self.alone_hz) * WAIT_MS / 1e3

    @property
    def floor(self) -> Figure:
        differ = max(abs(one / two - 1) for one, two in pairwise(self.alone_hz))
        return Figure(f"    noise floor: alone against alone, {len(self.alone_hz)} blocks", f"{differ:.1%}")


def computing() -> list[Figure]:
    """A3: a holder that waits for input two fifths of its time, and a guest that computes all the time it gets."""
    naive, idled, held_back = Seen(), Seen(), Seen()
    with weft_of_classes("cpu=1") as client:
        story = Story(_pair(client))
        for policy in ("antman", "weft", "antman", "weft", "antman"):
            story.round(held_back, policy)
        story.round(naive, NAIVE)
        story.round(idled, NAIVE, then=_idled)
        idling.undo(story.pair.guest.roots)
    return [
        Figure("A3: the guaranteed job waits for its input", f"{story.idle:.0%} of the time", peers=ANTMAN),
        *rows("A3: held back (antman and weft in turn)", held_back, story.idle, is_goal=True),
        story.floor,
        *rows("packed naively", naive, story.idle),
        *rows("packed, in the kernel's idle class by hand", idled, story.idle),
    ]


def without_idle_class() -> list[Figure]:
    """The same where the node may not use the idle class: the weight of the guest's session does it."""
    if os.getuid() != 0:
        return [NOT_SHOWN]
    seen = Seen()
    with weft_of_classes("cpu=1", "idle class") as client:
        story = Story(_pair(client))
        for _ in range(2):
            story.round(seen, "antman")
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
    seen = Seen()
    with weft_of_classes("cpu=1", "idle class and weights") as client:
        story = Story(_pair(client))
        story.round(seen, "antman", CONVERGE_S)
        figures = rows("held back by its duty alone", seen, story.idle)
        paced = Seen()
        story.round(paced, NAIVE, then=lambda pair: pair.guest.set_duty(BY_HAND))
        figures += rows(f"at a duty of {BY_HAND} %, set by hand", paced, story.idle)
    return [*figures, story.floor]


def _pair(client: weft.Client) -> Pair:
    return Pair(client, [str(HOLDER_WIDTH), str(WAIT_MS)], [str(GUEST_WIDTH), "0"], GUEST_BYTES)


def _idled(pair: Pair) -> None:
    idling.idle(pair.guest.roots, pair.holder.roots)


def rows(name: str, seen: Seen, idle: float, *, is_goal: bool = False) -> list[Figure]:
    slower, used = statistics.median(seen.slower), statistics.mean(seen.shares) / idle
    losses = ("≤ 3 %", slower <= GOAL) if is_goal else ("", None)
    gains = ("≥ 50 %", used >= 0.5) if is_goal else ("", None)
    return [
        Figure(f"{name}: slower by", f"{slower:.1%}{_each(seen.slower)}", *losses),
        Figure(
            "    the opportunistic job uses, of the time left idle",
            f"{used:.0%}{_each(one / idle for one in seen.shares)}",
            *gains,
        ),
    ]


def _each(parts: Iterable[float]) -> str:
    percents = [f"{100 * part:.1f}" for part in parts]
    return f" ({', '.join(percents)})" if len(percents) > 1 else ""


# ---- A1

DEVICE_MB = 136
SLOWER = 0.25
BURSTS, BURST_STEPS = 3, 4
HOST_BYTES = 512 * MB


@dataclass(frozen=True)
class BurstStep:
    took_ms: float
    usual_ms: float

    @property
    def times(self) -> float:
        """As long as a usual step of that time: the machine's speed drifts from minute to minute."""
        return self.took_ms / self.usual_ms


def bursting() -> list[Figure]:
    """A1: some steps of the holder need four times the memory, more than its guest leaves of the device. Alone it is
    looked at last: what it has needed once is kept free for it.

    The first step of a first burst is slow alone as well: its memory is touched for the first time. Beside the guest
    some of it goes to disk on top of that.
    """
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, weft_of_classes(f"cpu=1:{DEVICE_MB}M") as client:
        file = Path(folder) / "bursts"
        pair = Pair(client, [str(HOLDER_WIDTH), str(WAIT_MS), str(file)], [str(GUEST_WIDTH), "0"], GUEST_BYTES)
        pair.beside("antman", 1.0, 1.0)
        beside, after = _bursts(client, pair.holder_id, file), pair.guest.step
        wait_until(lambda: pair.guest.step > after, "the guest goes on", 90)
        states = [client.status(job_id)["state"] for job_id in (pair.holder_id, pair.guest_id)]
        pair.alone(1.0)
        alone = _bursts(client, pair.holder_id, file)
    differ = [[b.times - a.times for b, a in zip(*both, strict=True)] for both in zip(beside, alone, strict=True)]
    usual = statistics.median(step.times for burst in alone for step in burst)
    costs = [sum(burst) / usual for burst in differ]
    slow = [sum(more > SLOWER * usual for more in burst) for burst in differ]
    return [
        Figure(f"A1: {BURSTS} bursts of {BURST_STEPS} steps, alone", _in_ms(alone)),
        Figure("    beside a guest", _in_ms(beside)),
        Figure(
            "    what each burst costs, in such steps",
            ", ".join(f"{cost:.1f}" for cost in costs),
            "≤ 1",
            max(costs) <= 1,
        ),
        Figure("    slower by more than a quarter", f"{', '.join(map(str, slow))} of {BURST_STEPS} steps"),
        Figure("    then the two are", " and ".join(states), "nobody failed", states == ["RUNNING"] * 2),
    ]


def _bursts(client: weft.Client, job_id: str, file: Path) -> list[list[BurstStep]]:
    """How long the next steps take, if they need that much, with usual ones between the bursts."""
    before = len(list(client.logs(job_id)))
    _get_memory_from_the_host()
    for burst in range(1, BURSTS + 1):
        waiting, until = file.with_suffix(".new"), before + burst * BURST_STEPS
        waiting.write_text(str(BURST_STEPS))
        waiting.rename(file)
        wait_until(lambda until=until: len(list(client.logs(job_id))) >= until, "a burst is over")  # type: ignore[misc]
    steps = [BurstStep(*map(float, line.split())) for line in list(client.logs(job_id))[before:]]
    return [steps[at : at + BURST_STEPS] for at in range(0, len(steps), BURST_STEPS)]


def _get_memory_from_the_host() -> None:
    """A virtual machine that has not used a page for a while gets it anew from its host: here in 20 µs each, ten times
    what the kernel takes by itself. A burst's pages would cost more than the burst, beside a guest or alone."""
    with mmap.mmap(-1, HOST_BYTES) as pages:
        for at in range(0, HOST_BYTES, mmap.PAGESIZE):
            pages[at] = 1


def _in_ms(bursts: Sequence[Sequence[BurstStep]]) -> str:
    return "; ".join(", ".join(f"{each.took_ms:.0f}" for each in burst) for burst in bursts) + " ms"


PARTS = {
    "A3": computing,
    "A3 without the idle class": without_idle_class,
    "A1": bursting,
}
