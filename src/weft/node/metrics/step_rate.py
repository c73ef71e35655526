"""How fast a task steps: the rate of stable stretches for policies, and that of the last seconds for listings.

A policy uses a `Gauge`, which keeps circumstances apart. A listing shows a `Pace`: the last seconds as they were, turn
waits and throttling included. Nothing here reads a clock: the caller passes the time.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weft.core.value import value

WARM_UP_STEPS, WARM_UP_S = 3, 1.0
SETTLED_STEPS, SETTLED_S = 20, 2.0
SLOW_STEPS, SLOW_S = 3, 10.0
FASTEST_HZ = 1e6

RECENT_S, RECENT_STEPS = 10.0, 3
"""As long as this at least, and so many steps, however long they take."""


@value
class RateSample:
    """A task at one instant, and the jobs that computed on its devices beside it."""

    now_s: float
    step: int
    stepped_s: float
    """When its last step ended: from step to step is exact, from look to look may be a step too few or too many. While
    it is gated, when it last said that it is alive."""
    neighbours: frozenset[str] = frozenset()
    duty: int = 100
    generation: int = 0
    """Of its lease: between two looks it may have been paused and resumed unseen."""
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

    changed: RateSample | None = None
    counted: RateSample | None = None
    newest: RateSample | None = None
    has_stood: bool = False
    """It was gated since it counts."""

    @property
    def rate(self) -> Rate | None:
        """What is measured so far; None before the first step that counts. A throttled task may stand still, or get
        nothing, for long: it makes no more than if the step it is in ended now."""
        counted, newest = self.counted, self.newest
        if counted is None or newest is None:
            return None
        steps, lasted_s = newest.step - counted.step, newest.stepped_s - counted.stepped_s
        rate_hz = steps / lasted_s if steps > 0 and lasted_s > 0 else math.inf
        if newest.is_held_back and newest.now_s > counted.stepped_s:
            lasted_s = newest.now_s - counted.stepped_s
            rate_hz = min(rate_hz, (steps + 1) / lasted_s)
        if rate_hz > FASTEST_HZ:  # no steps, no time, or a page with made-up counts
            return None
        return Rate(rate_hz, steps, lasted_s, newest.neighbours, newest.generation)


def with_sample(gauge: Gauge, look: RateSample) -> Gauge:
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


def _is_warm(changed: RateSample, look: RateSample) -> bool:
    return look.step - changed.step >= WARM_UP_STEPS and look.stepped_s - changed.now_s >= WARM_UP_S


@value
class Pace:
    """Since its lease began: the looks that count, the oldest first, none before the first step."""

    looks: tuple[RateSample, ...] = ()
    has_stepped: bool = False

    def seen(self, look: RateSample) -> Pace:
        """With one look more. Of those at one step the first and the last are kept: it may stand still for long."""
        newest = self.looks[-1] if self.looks else None
        if newest is None or look.generation != newest.generation or look.step < newest.step:
            return Pace((look,))
        if not self.has_stepped and look.step > newest.step:
            return Pace((look,), has_stepped=True)  # from the end of a step on: the one before it may be long ago
        is_third = len(self.looks) > 1 and self.looks[-2].step == look.step
        looks = (*(self.looks[:-1] if is_third else self.looks), look)
        while len(looks) > 2 and _is_enough(looks[1], look):
            looks = looks[1:]
        return Pace(looks, self.has_stepped)

    @property
    def rate_hz(self) -> float | None:
        """Steps a second. In a step that takes long it makes no more than if that ended now; None while there is
        little to go by."""
        if not self.looks:
            return None
        first, last = self.looks[0], self.looks[-1]
        steps, lasted_s = last.step - first.step, last.now_s - first.now_s
        if not steps:
            return 1.0 / lasted_s if lasted_s >= RECENT_S else None
        stepping_s = last.stepped_s - first.stepped_s
        return min(steps / stepping_s, (steps + 1) / lasted_s) if stepping_s > 0 and lasted_s > 0 else None


def _is_enough(first: RateSample, last: RateSample) -> bool:
    return last.now_s - first.now_s >= RECENT_S and last.step - first.step >= RECENT_STEPS
