"""The numbers that the terminal and the page both show, and how they are worded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.words import counted
from weft.sim.metrics import BIN_NAMES, SHORT_S, SMALL_GANG_SIZE, Summary
from weft.sim.reading import NOTHING
from weft.sim.result import Run

MISSING = "–"
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class Column:
    """One figure of a run; the words may depend on the first run, which the others are compared with."""

    heading: str
    words: Callable[[Summary, Summary], str]


@dataclass(frozen=True)
class Group:
    """Columns that are read together, one row a run."""

    title: str
    columns: tuple[Column, ...]
    note: str

    def rows(self, summaries: Sequence[Summary]) -> list[list[str]]:
        return [[column.words(summary, summaries[0]) for column in self.columns] for summary in summaries]


def duration(seconds: float | None) -> str:
    if seconds is None:
        return MISSING
    for size_s, unit in UNITS:
        if seconds >= size_s:
            return f"{_short(seconds / size_s)} {unit}"
    return f"{seconds:.1f} s" if 0 < seconds < 10 else f"{seconds:.0f} s"


def parameter_words(parameters: Mapping[str, Any]) -> list[str]:
    """`name=value` for each, in the order the policy declares them."""
    return [f"{name}={_value(value)}" for name, value in parameters.items()]


def common_parameters(runs: Sequence[Run]) -> Mapping[str, Any]:
    """To be said once: what is the same in every run, if there are several."""
    if len(runs) == 1:
        return {}
    first, *others = (run.parameters for run in runs)
    return {key: first[key] for key in first if all(key in each and each[key] == first[key] for each in others)}


def groups(summaries: Sequence[Summary]) -> tuple[Group, ...]:
    return (COMPLETION, CLUSTER, _bin_group(summaries))


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _ratio(part: float | None) -> str:
    return MISSING if part is None else f"{part:.2f}" if part < 10 else _short(part)


def _speed_up(summary: Summary, first: Summary) -> str:
    if summary is first:
        return "1×"
    if not summary.mean_jct_s:
        return MISSING
    times = first.mean_jct_s / summary.mean_jct_s
    # Near 1 the second decimal is the difference; far from it, it is noise.
    return f"{times:.2f}×" if times < 2 else f"{_short(times)}×"


def _value(value: Any) -> str:
    if value is None:
        return NOTHING[0]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bin_group(summaries: Sequence[Summary]) -> Group:
    return Group(
        "Mean completion time by kind of job",
        tuple(Column(_bin_heading(name, summaries), _bin_words(name)) for name in BIN_NAMES),
        f"Small: a gang of at most {SMALL_GANG_SIZE}. Short: at most {SHORT_S:.0f} s alone.",
    )


def _bin_heading(name: str, summaries: Sequence[Summary]) -> str:
    counts = sorted({summary.bins[name].count for summary in summaries})
    *others, last = counts
    return f"{name.capitalize()}\n{''.join(f'{count:,} or ' for count in others)}{counted(last, 'job')}"


def _bin_words(name: str) -> Callable[[Summary, Summary], str]:
    return lambda summary, _: duration(summary.bins[name].mean_jct_s)


COMPLETION = Group(
    "Completion time and fairness",
    (
        Column("Mean", lambda summary, _: duration(summary.mean_jct_s)),
        Column("Median", lambda summary, _: duration(summary.median_jct_s)),
        Column("p95", lambda summary, _: duration(summary.p95_jct_s)),
        Column("p99", lambda summary, _: duration(summary.p99_jct_s)),
        Column("Speed-up", _speed_up),
        Column("Mean ρ", lambda summary, _: _ratio(summary.mean_rho)),
        Column("Jain", lambda summary, _: _ratio(summary.jain)),
    ),
    "Speed-up: the first row's mean over this row's. ρ: completion time over time alone. "
    "Jain: 1 when every tenant progresses at the same rate.",
)

CLUSTER = Group(
    "Queueing delay and the cluster",
    (
        Column("Mean delay", lambda summary, _: duration(summary.mean_queue_s)),
        Column("p99 delay", lambda summary, _: duration(summary.p99_queue_s)),
        Column("Makespan", lambda summary, _: duration(summary.makespan_s)),
        Column("Utilisation", lambda summary, _: f"{summary.utilisation:.1%}"),
        Column("Preemptions", lambda summary, _: f"{summary.preemptions:,}"),
    ),
    "Queueing delay: all the time a job held no devices.",
)
