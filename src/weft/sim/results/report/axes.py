"""Axes with ticks that people read: numbers from zero in one unit, and durations on a logarithmic axis.

Every axis has a range and at least two labelled ticks within it. They hold for the figure as it is first shown;
where a reader zooms in, the page lets plotly choose others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.sim.results.report.rows import UNITS, duration

Axis = dict[str, Any]
"""As plotly's layout takes it."""

UNIT_NAMES = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
FEWEST_ON_AXIS = 3.0
MOST_TICKS = 6
"""More would overlap on a phone."""
NICE_STEPS = (1.0, 2.0, 5.0)
LADDER_S = (
    1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_200.0, 1_800.0, 3_600.0, 7_200.0, 18_000.0,
    36_000.0, 86_400.0, 172_800.0, 432_000.0, 864_000.0, 1_728_000.0, 4_320_000.0, 8_640_000.0,
)  # fmt: skip
"""Durations that make good ticks; beyond the last, powers of ten days."""


def unit_for(longest_s: float) -> tuple[float, str]:
    """The largest unit, with its name, of which a few fit on an axis of this length."""
    for size_s, unit in UNITS:
        if longest_s >= FEWEST_ON_AXIS * size_s:
            return size_s, UNIT_NAMES[unit]
    return 1.0, UNIT_NAMES["s"]


def from_zero(title: str, highest: float, *, whole: bool = False) -> Axis:
    """A linear axis from zero; `whole` if fractions mean nothing, as of jobs."""
    step = _step(highest, whole)
    ticks = [step * i for i in range(max(1, math.floor(round(highest / step, 9))) + 1)]
    return {
        "type": "linear",
        "title": {"text": title},
        "range": [0.0, max(highest, ticks[-1]) * 1.02],
        "tickvals": ticks,
        "ticktext": [f"{tick:,.10g}" for tick in ticks],
    }


def share(title: str) -> Axis:
    """From nothing to all."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return {
        "type": "linear",
        "title": {"text": title},
        "range": [0.0, 1.02],
        "tickvals": ticks,
        "ticktext": [f"{tick:.0%}" for tick in ticks],
    }


def logarithmic(title: str, shortest_s: float, longest_s: float) -> Axis:
    """Durations of at least a second. The range is widened until two ticks are in it; plotly wants powers of ten."""
    ladder = _ladder(longest_s)
    below = max((tick for tick in ladder if tick <= shortest_s), default=ladder[0])
    above = min(tick for tick in ladder if tick >= longest_s and tick > below)
    inside = [tick for tick in ladder if shortest_s <= tick <= longest_s]
    lowest_s, highest_s = (shortest_s, longest_s) if len(inside) > 1 else (below, above)
    ticks = _spread([tick for tick in ladder if lowest_s <= tick <= highest_s])
    return {
        "type": "log",
        "title": {"text": title},
        "range": [math.log10(lowest_s / 1.05), math.log10(highest_s * 1.05)],
        "tickvals": ticks,
        "ticktext": [duration(tick).replace(".0 ", " ") for tick in ticks],
    }


def categories(names: Sequence[str]) -> Axis:
    """One line a name, the first on top."""
    return {
        "type": "category",
        "title": {"text": ""},
        "range": [len(names) - 0.5, -0.5],
        "tickvals": list(names),
        "ticktext": list(names),
    }


def _step(highest: float, whole: bool) -> float:
    """The smallest nice step with which the axis has few enough ticks."""
    if not highest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(highest / MOST_TICKS))
    sizes = [power * size for size in (*NICE_STEPS, 10.0)]
    step = next(size for size in sizes if highest / size <= MOST_TICKS - 1 or size == sizes[-1])
    return max(step, 1.0) if whole else step


def _ladder(longest_s: float) -> list[float]:
    ladder = list(LADDER_S)
    while ladder[-1] <= longest_s:
        ladder.append(ladder[-1] * 10)
    return ladder


def _spread(ticks: Sequence[float]) -> list[float]:
    """Few enough of them, as evenly apart on a logarithmic axis as they can be."""
    if len(ticks) <= MOST_TICKS:
        return list(ticks)
    first, last = math.log(ticks[0]), math.log(ticks[-1])
    wanted = [first + (last - first) * i / (MOST_TICKS - 1) for i in range(MOST_TICKS)]
    nearest = {min(ticks, key=lambda tick: abs(math.log(tick) - each)) for each in wanted}
    return sorted(nearest)
