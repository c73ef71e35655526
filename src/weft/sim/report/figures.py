"""The figures of the page, as plain values that plotly's script can draw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.sim.metrics import BIN_NAMES, Summary, completion_s, queueing_s
from weft.sim.report.rows import UNITS, duration
from weft.sim.report.thin import Line, bucket_means, bucket_peaks, cumulative
from weft.sim.result import Floats, Run, Timeline

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
FEW_TICKS_S = (1.0, 10.0, 60.0, 600.0, 3_600.0, 18_000.0, 86_400.0, 864_000.0, 8_640_000.0)
MANY_TICKS_S = (
    1.0, 3.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 10_800.0, 36_000.0,
    86_400.0, 259_200.0, 864_000.0, 2_592_000.0, 8_640_000.0,
)  # fmt: skip
UNIT_NAMES = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
FEWEST_ON_AXIS = 3.0


@dataclass(frozen=True)
class Figure:
    """One drawing; `traces` has one entry a run, in order, so that a run can be hidden in all of them."""

    name: str
    title: str
    note: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]


def figures(runs: Sequence[Run], labels: Sequence[str], summaries: Sequence[Summary]) -> list[Figure]:
    return [
        _cdf("completion", "Completion time", labels, [completion_s(run.jobs) for run in runs]),
        _cdf("queueing", "Queueing delay", labels, [queueing_s(run.jobs) for run in runs]),
        _utilisation(runs, labels),
        _jobs_waiting(runs, labels),
        _breakdown(labels, summaries),
    ]


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def dash(index: int) -> str:
    """Tells apart the runs that share a colour."""
    return tuple(HATCHES)[index // len(COLOURS) % len(HATCHES)]


def _cdf(name: str, title: str, labels: Sequence[str], values: Sequence[Floats]) -> Figure:
    # A logarithmic axis has no zero, and nobody minds a delay of less than a second.
    lines = [cumulative(np.maximum(seconds, 1.0), CDF_POINTS) for seconds in values]
    traces = [
        _line(index, label, line, "%{text} or less: %{y:.1%}") | {"text": [duration(x) for x in line[0].tolist()]}
        for index, (label, line) in enumerate(zip(labels, lines, strict=True))
    ]
    shortest_s, longest_s = min(x_s[0] for x_s, _ in lines), max(x_s[-1] for x_s, _ in lines)
    layout = {
        "xaxis": _log_axis(f"{title.lower()}, logarithmic", shortest_s / 1.1, longest_s * 1.1, FEW_TICKS_S),
        "yaxis": {"title": {"text": "share of jobs"}, "range": [0, 1.02], "tickformat": ".0%"},
    }
    note = "The further left a line, the sooner its jobs were served. What took less than 1 s is drawn at 1 s."
    return Figure(name, title, note, traces, layout)


def _utilisation(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    def share(run: Run) -> Line:
        return bucket_means(run.timeline.time_s, run.timeline.devices_held / run.device_count, MEAN_POINTS)

    traces, x_axis = _over_time(runs, labels, share, "%{y:.1%} held")
    y_axis = {"title": {"text": "devices held"}, "range": [0, 1.02], "tickformat": ".0%"}
    note = "The share of the cluster's devices that jobs hold; long runs are averaged over short spans of time."
    return Figure("utilisation", "Utilisation", note, traces, {"xaxis": x_axis, "yaxis": y_axis})


def _jobs_waiting(runs: Sequence[Run], labels: Sequence[str]) -> Figure:
    def waiting(run: Run) -> Line:
        return bucket_peaks(run.timeline.time_s, run.timeline.jobs_waiting, PEAK_POINTS)

    traces, x_axis = _over_time(runs, labels, waiting, "%{y:,} waiting")
    y_axis = {"title": {"text": "jobs waiting"}, "rangemode": "tozero", "tickformat": ",d"}
    note = "Jobs in the queue; long runs show the longest queue of each short span of time."
    return Figure("waiting", "Queue length", note, traces, {"xaxis": x_axis, "yaxis": y_axis})


def _over_time(
    runs: Sequence[Run], labels: Sequence[str], line_of: Callable[[Run], Line], words: str
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """One line a run, and the axis of time below them."""
    size_s, unit = _axis_unit(run.timeline for run in runs)
    traces = []
    for index, (run, label) in enumerate(zip(runs, labels, strict=True)):
        time_s, values = line_of(run)
        traces.append(_line(index, label, (time_s / size_s, values), f"%{{x:.1f}} {unit}: {words}"))
    x_axis = {
        "title": {"text": f"{unit} after the first arrival"},
        "rangemode": "tozero",
        "tickformat": ",~f",
    }
    return traces, x_axis


def _breakdown(labels: Sequence[str], summaries: Sequence[Summary]) -> Figure:
    traces = []
    for index, (label, summary) in enumerate(zip(labels, summaries, strict=True)):
        means_s = [summary.bins[name].mean_jct_s for name in BIN_NAMES]
        words = [duration(mean_s) for mean_s in means_s]
        traces.append(_bars(index, label, means_s, words))
    drawn_s = [mean_s for trace in traces for mean_s in trace["y"] if mean_s]
    lowest_s, highest_s = (min(drawn_s), max(drawn_s)) if drawn_s else (1.0, 10.0)
    layout = {
        "barmode": "group",
        "bargap": 0.25,
        "xaxis": {"type": "category"},
        "yaxis": _log_axis("mean completion time, logarithmic", lowest_s / 3, highest_s * 1.3, MANY_TICKS_S),
    }
    note = "Mean completion time of small and large gangs, short and long jobs; a shorter bar is better."
    return Figure("breakdown", "Breakdown by kind of job", note, traces, layout)


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


def _bars(index: int, label: str, means_s: list[float | None], words: list[str]) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": label,
        "x": [name.capitalize().replace(" ", "<br>") for name in BIN_NAMES],
        "y": means_s,
        "text": words,
        "textposition": "none",
        "marker": {"color": colour(index), "pattern": {"shape": HATCHES[dash(index)]}},
        "hovertemplate": "%{text}",
    }


def _axis_unit(timelines: Iterable[Timeline]) -> tuple[float, str]:
    """The largest unit that still leaves a few of it on the axis."""
    span_s = max(float(timeline.time_s[-1]) for timeline in timelines)
    for size_s, unit in UNITS:
        if span_s >= FEWEST_ON_AXIS * size_s:
            return size_s, UNIT_NAMES[unit]
    return 1.0, UNIT_NAMES["s"]


def _log_axis(title: str, lowest_s: float, highest_s: float, ticks_s: Sequence[float]) -> dict[str, Any]:
    """Plotly takes the range as powers of ten; people read 1 h and 10 h, not 10³·⁵ s."""
    return {
        "type": "log",
        "title": {"text": title},
        "range": [float(np.log10(lowest_s)), float(np.log10(highest_s))],
        "tickvals": list(ticks_s),
        "ticktext": [duration(tick_s).replace(".0", "") for tick_s in ticks_s],
    }
