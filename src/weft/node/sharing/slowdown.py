"""Whether a holder is slower beside its guests than alone, and whether the guests cause it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.core.value import value

TAIL = 0.1
REMEMBERED = 256

HI, LO = 0.02, 0.01
PERIOD_S = 1.0
OF_THE_NEW = 0.3
LEAST_ERROR = 1e-6


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

    A median would not see a neighbour that holds up every third step; a plain mean sees each checkpoint.
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


@value
class Noise:
    """By how much one period differs from the next, for whatever reason: what its steps take, and which part of it the
    holder stands in line. Until they are measured these are what a virtual machine among others showed."""

    steps: float = 0.03
    line: float = 0.005
    last: Window | None = None

    def and_then(self, period: Window) -> Noise:
        if self.last is None:
            return Noise(self.steps, self.line, period)
        now_s, last_s = typical(period.steps).typical_s, typical(self.last.steps).typical_s
        line = self.line
        if period.waited is not None and self.last.waited is not None:
            line = _moved(line, period.waited - self.last.waited)
        return Noise(_moved(self.steps, now_s / last_s - 1), line, period)


def _moved(noise: float, difference: float) -> float:
    return noise + OF_THE_NEW * (abs(difference) / math.sqrt(2) - noise)


@value
class Measure:
    """By how much the holder is slower, and how far that may be off by chance."""

    slower: float
    error: float

    def is_above(self, bound: float, errors: float) -> bool:
        return self.slower > bound + errors * self.error


@value
class Evidence:
    """By how much steps take longer than alone, and how much more of the time is spent in line; None: not known.

    A step's time is what counts, but a machine's speed drifts, by more than is looked for. Waiting does not.
    """

    steps: Measure
    waiting: Measure | None

    @property
    def harm(self) -> float:
        """By how much it is slower, by the measure that says more."""
        return max(measure.slower for measure in self._measures)

    @property
    def is_slow(self) -> bool:
        return any(measure.is_above(HI, 2) for measure in self._measures)

    @property
    def is_likely_slow(self) -> bool:
        """Of what looked slow before: chance would have to strike twice."""
        return any(measure.is_above(HI, 1) for measure in self._measures)

    @property
    def is_hardly_slow(self) -> bool:
        return not any(measure.is_above(HI, -1) for measure in self._measures)

    @property
    def is_quick(self) -> bool:
        return not self.steps.is_above(-HI, -1)

    @property
    def is_fine(self) -> bool:
        if self.waiting is not None:
            return self.waiting.slower < LO and not self.steps.is_above(LO, 1)
        return self.steps.slower < LO and not self.steps.is_above(HI, -1)

    @property
    def _measures(self) -> list[Measure]:
        return [self.steps] if self.waiting is None else [self.steps, self.waiting]


def evidence(baseline: Window, seen: Window, noise: Noise) -> Evidence:
    alone, now = typical(baseline.steps), typical(seen.steps)
    periods = [max(1.0, sum(window.steps) / PERIOD_S) for window in (baseline, seen)]
    errors = [max(each.error, noise.steps / math.sqrt(many)) for each, many in zip((alone, now), periods, strict=True)]
    steps = Measure(now.typical_s / alone.typical_s - 1, math.hypot(*errors))
    if baseline.waited is None or seen.waited is None:
        return Evidence(steps, None)
    in_line = [noise.line / math.sqrt(many) for many in periods]
    return Evidence(steps, Measure(seen.waited - baseline.waited, math.hypot(*in_line)))


def pooled(many: Sequence[Evidence]) -> Evidence:
    """What they say together."""
    waiting = [each.waiting for each in many if each.waiting is not None]
    return Evidence(_mean([each.steps for each in many]), _mean(waiting) if waiting else None)


def _mean(many: Sequence[Measure]) -> Measure:
    """The less one may be off, the more it counts."""
    weights = [max(each.error, LEAST_ERROR) ** -2 for each in many]
    slower = sum(weight * each.slower for weight, each in zip(weights, many, strict=True)) / sum(weights)
    return Measure(slower, 1 / math.sqrt(sum(weights)))
