"""The figures of the page and their axes, as plain values that plotly's script can draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weft.sim.results.report.rows import (
    UNITS,
    classes_count,
    duration,
    job_counts,
    present_bins,
    present_classes,
    said_of_classes,
)
from weft.sim.results.summary import Floats, Ints, PolicyRun, Summary, completion_s, queueing_s

# ---- Axes with ticks that people read: numbers from zero in one unit, and durations on a logarithmic axis.
#
# Every axis has a range and at least two labelled ticks within it. They hold for the figure as it is first shown;
# where a reader zooms in, the page lets plotly choose others.

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


def axis_from_zero(title: str, highest: float, *, whole: bool = False) -> Axis:
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


def share_axis(title: str) -> Axis:
    """From nothing to all."""
    ticks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    return {
        "type": "linear",
        "title": {"text": title},
        "range": [0.0, 1.02],
        "tickvals": ticks,
        "ticktext": [f"{tick:.0%}" for tick in ticks],
    }


def logarithmic_axis(title: str, shortest_s: float, longest_s: float) -> Axis:
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


def category_axis(names: Sequence[str]) -> Axis:
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


# ---- The figures.

CDF_POINTS = 1_000
MEAN_POINTS = 240
"""Few on purpose: a mean over a wider bucket is a calmer line, and hides nothing that a mean could show."""
PEAK_POINTS = 1_000

COLOURS = (
    "#3f7fd0", "#e0803c", "#2f9e7a", "#c4527f", "#8b67cf",
    "#b3922b", "#35a3b5", "#cf4f4f", "#7a8f35", "#8a8f98",
)  # fmt: skip
HATCHES = {"solid": "", "dash": "/", "dot": "."}
"""The fill of a bar for each kind of line."""
BAR_PX = 19
AROUND_PX = 84
"""Above and below the bars: the axis, its title, and air."""


@dataclass(frozen=True)
class Figure:
    """One drawing; `traces` has one entry a run, in order, so that a run can be hidden in all of them."""

    name: str
    title: str
    note: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height_px: int | None = None
    """None: as high as the page makes a figure."""


def figures(runs: Sequence[PolicyRun], labels: Sequence[str], summaries: Sequence[Summary]) -> list[Figure]:
    by_class = [_by_class(labels, summaries)] if classes_count(summaries) else []
    return [
        _cdf("completion", "Completion time", labels, [completion_s(run.jobs) for run in runs]),
        _cdf("queueing", "Queueing delay", labels, [queueing_s(run.jobs) for run in runs]),
        *by_class,
        _by_kind(labels, summaries),
        _utilisation(runs, labels),
        _jobs_waiting(runs, labels),
    ]


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    """Tells apart the runs that share a colour."""
    return tuple(HATCHES)[index // len(COLOURS) % len(HATCHES)]


def _cdf(name: str, title: str, labels: Sequence[str], values: Sequence[Floats]) -> Figure:
    # A logarithmic axis has no zero, and a delay of less than a second does not matter.
    lines = [cumulative(np.maximum(seconds, 1.0), CDF_POINTS) for seconds in values]
    traces = [
        _line(index, label, line, "%{text} or less: %{y:.1%}") | {"text": [duration(x) for x in line[0].tolist()]}
        for index, (label, line) in enumerate(zip(labels, lines, strict=True))
    ]
    shortest_s, longest_s = min(x_s[0] for x_s, _ in lines), max(x_s[-1] for x_s, _ in lines)
    layout = {
        "xaxis": logarithmic_axis(f"{title.lower()}, logarithmic", float(shortest_s), float(longest_s)),
        "yaxis": share_axis("share of jobs"),
    }
    note = "The further left a line, the sooner its jobs were served. What took less than 1 s is drawn at 1 s."
    return Figure(name, title, note, traces, layout)


def _utilisation(runs: Sequence[PolicyRun], labels: Sequence[str]) -> Figure:
    def share(run: PolicyRun) -> Line:
        return bucket_means(run.timeline.time_s, run.timeline.devices_held / run.device_count, MEAN_POINTS)

    traces, x_axis = _over_time(runs, labels, share, "%{y:.1%} held")
    note = "The share of the cluster's devices that jobs hold; long runs are averaged over short spans of time."
    return Figure("utilisation", "Utilisation", note, traces, {"xaxis": x_axis, "yaxis": share_axis("devices held")})


def _jobs_waiting(runs: Sequence[PolicyRun], labels: Sequence[str]) -> Figure:
    def waiting(run: PolicyRun) -> Line:
        return bucket_peaks(run.timeline.time_s, run.timeline.jobs_waiting, PEAK_POINTS)

    traces, x_axis = _over_time(runs, labels, waiting, "%{y:,} waiting")
    y_axis = axis_from_zero("jobs waiting", max(max(trace["y"]) for trace in traces), whole=True)
    note = "Jobs in the queue; long runs show the longest queue of each short span of time."
    return Figure("waiting", "Queue length", note, traces, {"xaxis": x_axis, "yaxis": y_axis})


def _over_time(
    runs: Sequence[PolicyRun], labels: Sequence[str], line_of: Callable[[PolicyRun], Line], words: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One line a run, and the axis of time below them."""
    span_s = max(float(run.timeline.time_s[-1]) for run in runs)
    size_s, unit = unit_for(span_s)
    traces = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        time_s, values = line_of(run)
        traces.append(_line(index, label, (time_s / size_s, values), f"%{{x:.1f}} {unit}: {words}"))
    return traces, axis_from_zero(f"{unit} after the first arrival", span_s / size_s)


def _by_class(labels: Sequence[str], summaries: Sequence[Summary]) -> Figure:
    def mean_s(name: str, summary: Summary) -> float | None:
        return summary.classes[name].mean_jct_s if name in summary.classes else None

    names = present_classes(summaries)
    counts = {name: job_counts([summary.classes[name].count for summary in summaries]) for name in names}
    categories = {name: f"{name.capitalize()}<br>{counts[name]}" for name in names}
    note = f"Mean completion time of each class; a shorter bar is better. {said_of_classes(summaries, labels)}"
    return _bars("classes", "Mean completion time by class", note, categories, labels, summaries, mean_s)


def _by_kind(labels: Sequence[str], summaries: Sequence[Summary]) -> Figure:
    names = present_bins(summaries)
    counts = {name: job_counts([summary.bins[name].count for summary in summaries]) for name in names}
    categories = {name: f"{name.capitalize()}<br>{counts[name]}" for name in names}
    note = "Mean completion time of small and large gangs, short and long jobs; a shorter bar is better."
    title = "Mean completion time by kind of job"
    return _bars("kinds", title, note, categories, labels, summaries, lambda name, each: each.bins[name].mean_jct_s)


def _bars(
    name: str,
    title: str,
    note: str,
    categories: Mapping[str, str],
    labels: Sequence[str],
    summaries: Sequence[Summary],
    mean_s: Callable[[str, Summary], float | None],
) -> Figure:
    """A bar for each category that has data and each run, all from zero on one linear axis."""
    values_s = [
        {words: value for each, words in categories.items() if (value := mean_s(each, summary)) is not None}
        for summary in summaries
    ]
    longest_s = max(value for values in values_s for value in values.values())
    size_s, unit = unit_for(longest_s)
    traces = [
        _bar_trace(index, label, values, size_s)
        for index, (label, values) in enumerate(zip(labels, values_s, strict=True))
    ]
    layout = {
        "barmode": "group",
        "bargap": 0.3,
        "xaxis": axis_from_zero(f"mean completion time, {unit}", longest_s / size_s),
        "yaxis": category_axis(list(categories.values())),
    }
    height_px = AROUND_PX + BAR_PX * len(categories) * max(2, len(labels) + 1)
    return Figure(name, title, note, traces, layout, height_px)


def _line(index: int, label: str, line: Line, words: str) -> dict[str, Any]:
    x, y = line
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": x.round(4).tolist(),
        "y": y.round(4).tolist(),
        "line": {"shape": "hv", "width": 1.8, "color": colour(index), "dash": dash(index)},
        "hovertemplate": words,
    }


def _bar_trace(index: int, label: str, values_s: Mapping[str, float], size_s: float) -> dict[str, Any]:
    return {
        "type": "bar",
        "orientation": "h",
        "name": label,
        "x": [value_s / size_s for value_s in values_s.values()],
        "y": list(values_s),
        "text": [duration(value_s) for value_s in values_s.values()],
        "textposition": "outside",
        "cliponaxis": False,
        "marker": {"color": colour(index), "pattern": {"shape": HATCHES[dash(index)]}},
        "hovertemplate": "%{text}",
    }


# ---- Long lines made short enough to draw, without hiding what a reader looks for in them.

Line = tuple[Floats, Floats]
"""Where each value starts to hold, and the value; the last one closes the line."""


def cumulative(values: Floats, points: int) -> Line:
    """The share of values at or below each x: every value if they are few, else evenly spaced quantiles."""
    share = np.linspace(0.0, 1.0, min(len(values) + 1, points))
    return np.quantile(values, share, method="inverted_cdf"), share


def bucket_means(time_s: Floats, values: Floats | Ints, points: int) -> Line:
    """The time-weighted mean of each bucket, so that the area under the line stays what it was."""
    if len(time_s) <= points or time_s[0] == time_s[-1]:
        return time_s, values.astype(np.float64)
    edges = np.linspace(time_s[0], time_s[-1], points)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(time_s))])
    means = np.diff(np.interp(edges, time_s, area)) / np.diff(edges)
    return edges, np.append(means, values[-1])


def bucket_peaks(time_s: Floats, values: Floats | Ints, points: int) -> Line:
    """The greatest value that held at any instant of each bucket."""
    if len(time_s) <= points or time_s[0] == time_s[-1]:
        return time_s, values.astype(np.float64)
    edges = np.linspace(time_s[0], time_s[-1], points)
    first = np.searchsorted(time_s, edges, side="left")
    held = np.searchsorted(time_s, edges, side="right") - 1
    # A bucket also has the value it began with, which may have been set long before.
    peaks = [max(values[held[at]], values[start:end].max(initial=0)) for at, (start, end) in enumerate(pairwise(first))]
    return edges, np.array([*peaks, values[first[-1] :].max()], dtype=np.float64)
