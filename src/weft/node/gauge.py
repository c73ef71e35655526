"""How fast a task really steps: rates over stable stretches, and what a handful of step durations amount to.

Nothing here looks at a clock: whoever looks at a task says when.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from weft.core.value import value

WARM_UP_STEPS, WARM_UP_S = 3, 1.0
SETTLED_STEPS, SETTLED_S = 20, 2.0
SLOW_STEPS, SLOW_S = 3, 10.0
TAIL = 0.1
FASTEST_HZ = 1e6
REMEMBERED = 256


@value
class Look:
    """A task at one instant, and who computed on its devices beside it."""

    now_s: float
    step: int
    stepped_s: float
    """When its last step ended: from step to step is exact, from look to look may be a step too few or too many. While
    it is gated, when it last said that it is alive."""
    neighbours: frozenset[str] = frozenset()
    duty: int = 100
    generation: int = 0
    """Of its lease: between two looks it may have been paused and gone on, and nobody saw it stand still."""
    is_held_back: bool = False
    is_gated: bool = False
    """It stands still for others for a while. That is no change: what it makes beside them is what it makes with its
    rests."""

    @property
    def circumstances(self) -> tuple[frozenset[str], int, int, bool]:
        return (self.neighbours, self.duty, self.generation, self.is_held_back)


@value
class Rate:
    """Steps a second over a stretch in which nothing changed, warm-up left out. Without a step it is what it makes at
    most."""

    rate_hz: float
    steps: int
    lasted_s: float
    neighbours: frozenset[str]
    generation: int

    @property
    def is_settled(self) -> bool:
        """Enough to rely on. A task of long steps is not waited for as long as twenty of them would take."""
        is_long = self.steps >= SETTLED_STEPS and self.lasted_s >= SETTLED_S
        return is_long or (self.steps >= SLOW_STEPS and self.lasted_s >= SLOW_S)


@value
class Gauge:
    """A stretch being measured: since when things are as they are, and from where on it counts."""

    changed: Look | None = None
    counted: Look | None = None
    newest: Look | None = None
    has_stood: bool = False
    """It was gated since it counts."""

    @property
    def rate(self) -> Rate | None:
        """What is measured so far; None before the first step that counts. Who is held back may stand still, or get
        nothing, for long: it makes no more than if the step it is in ended now."""
        counted, newest = self.counted, self.newest
        if counted is None or newest is None:
            return None
        steps, lasted_s = newest.step - counted.step, newest.stepped_s - counted.stepped_s
        rate_hz = steps / lasted_s if steps > 0 and lasted_s > 0 else math.inf
        if newest.is_held_back and newest.now_s > counted.stepped_s:
            lasted_s = newest.now_s - counted.stepped_s
            rate_hz = min(rate_hz, (steps + 1) / lasted_s)
        if rate_hz > FASTEST_HZ:  # no steps, no time, or a page that counts what nobody computed
            return None
        return Rate(rate_hz, steps, lasted_s, newest.neighbours, newest.generation)


def watch(gauge: Gauge, look: Look) -> Gauge:
    """With one look more. Any change begins a new stretch, and so does a task that counts its steps anew. One that is
    gated first, while its holder's steps alone are learnt, has not begun to compute beside it."""
    newest = gauge.newest
    if newest is None or look.circumstances != newest.circumstances or look.step < newest.step:
        return Gauge(look, None, look)
    assert gauge.changed is not None
    if gauge.counted is not None:
        return replace(gauge, newest=look, has_stood=gauge.has_stood or look.is_gated)
    if look.is_gated:
        return Gauge(look, None, look)
    return replace(gauge, counted=look if _is_warm(gauge.changed, look) else None, newest=look)


def _is_warm(changed: Look, look: Look) -> bool:
    return look.step - changed.step >= WARM_UP_STEPS and look.stepped_s - changed.now_s >= WARM_UP_S


@value
class Typical:
    """What steps take on average, and how far that may be off by chance (one standard error)."""

    typical_s: float
    error_s: float

    @property
    def error(self) -> float:
        return self.error_s / self.typical_s if self.typical_s else 0.0


def typical(durations_s: Sequence[float]) -> Typical:
    """The mean, with the longest and the shortest tenth drawn in to where that tenth begins (winsorised).

    A median would not see a neighbour who holds up every third step; a plain mean sees each checkpoint.
    """
    ordered = sorted(durations_s)
    count = len(ordered)
    cut = int(count * TAIL)
    drawn_in = [ordered[cut]] * cut + ordered[cut : count - cut] + [ordered[count - cut - 1]] * cut
    mean_s = sum(drawn_in) / count
    variance = sum((each - mean_s) ** 2 for each in drawn_in) / max(1, count - 1)
    return Typical(mean_s, math.sqrt(variance / count) / (1 - 2 * TAIL))


@value
class Window:
    """Steps taken under the same circumstances, and for how much of the time the task stood in line for its cores.

    That is known of cpu devices alone, and only where the kernel counts it; else `waited_s` is None. It tells a
    neighbour on the same core from all else that slows a machine down.
    """

    steps: tuple[float, ...] = ()
    waited_s: float | None = 0.0
    lasted_s: float = 0.0

    def and_then(self, steps: tuple[float, ...], waited_s: float | None, lasted_s: float) -> Window:
        both_s = None if waited_s is None or self.waited_s is None else self.waited_s + waited_s
        return Window((*self.steps, *steps)[-REMEMBERED:], both_s, self.lasted_s + lasted_s)

    @property
    def waited(self) -> float | None:
        """As a share of the time."""
        return self.waited_s / self.lasted_s if self.waited_s is not None and self.lasted_s > 0 else None
