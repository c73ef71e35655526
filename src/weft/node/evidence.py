"""Whether a holder is slower beside its guests than alone, and whether that is their doing."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.core.value import value
from weft.node.gauge import Window, typical

HI, LO = 0.02, 0.01
PERIOD_S = 1.0
OF_THE_NEW = 0.3
LEAST_ERROR = 1e-6


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
    """By how much steps take longer than alone, and how much more of the time is spent in line; None: nobody knows.

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
