"""The numbers and sentences that the terminal and the page both show."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.core.text import count_of
from weft.policies.loader import NOTHING
from weft.sim.results.summary import BIN_NAMES, CLASS_NAMES, SHORT_S, SMALL_GANG_SIZE, ClassSummary, PolicyRun, Summary

MISSING = "–"
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


@dataclass(frozen=True)
class Column:
    """One figure of a run; the words may depend on the first run, which the others are compared with."""

    heading: str
    words: Callable[[Summary, Summary], str]


@dataclass(frozen=True)
class ColumnGroup:
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


def common_parameters(runs: Sequence[PolicyRun]) -> Mapping[str, Any]:
    """To be said once: what is the same in every run, if there are several."""
    if len(runs) == 1:
        return {}
    first, *others = (run.parameters for run in runs)
    return {key: first[key] for key in first if all(key in each and each[key] == first[key] for each in others)}


def groups(summaries: Sequence[Summary], names: Sequence[str]) -> tuple[ColumnGroup, ...]:
    """The tables. Those by class come where classes count: without them the means of runs do not compare."""
    by_class = _class_groups(summaries, names) if classes_count(summaries) else ()
    return (COMPLETION, *by_class, CLUSTER, _bin_group(summaries))


def classes_count(summaries: Sequence[Summary]) -> bool:
    """Whether some policy heeds classes, and there is more than one."""
    return any(summary.heeds_classes for summary in summaries) and len(present_classes(summaries)) > 1


def present_classes(summaries: Sequence[Summary]) -> list[str]:
    """The classes that some job asked for, in their order."""
    return [name for name in CLASS_NAMES if any(name in summary.classes for summary in summaries)]


def present_bins(summaries: Sequence[Summary]) -> list[str]:
    """The kinds of job that there are, in their order."""
    return [name for name in BIN_NAMES if any(summary.bins[name].count for summary in summaries)]


def said_of_classes(summaries: Sequence[Summary], names: Sequence[str]) -> str:
    """Which of the policies heed classes, and what to compare therefore."""
    heeding = [name for name, summary in zip(names, summaries, strict=True) if summary.heeds_classes]
    others = [name for name, summary in zip(names, summaries, strict=True) if not summary.heeds_classes]
    words = f"{listed(heeding)} {'heeds' if len(heeding) == 1 else 'heed'} classes: opportunistic jobs yield"
    if not others:
        return f"{words}."
    treat = f"{listed(others)} {'treats' if len(others) == 1 else 'treat'} all jobs as peers"
    return f"{words}; {treat}. Compare policies within a class, not over all jobs."


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def job_counts(counts: Sequence[int]) -> str:
    """`12 jobs`, or `11 or 12 jobs` where runs differ."""
    *others, last = sorted(set(counts))
    return f"{''.join(f'{count:,} or ' for count in others)}{count_of(last, 'job')}"


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


def _bin_group(summaries: Sequence[Summary]) -> ColumnGroup:
    return ColumnGroup(
        "Mean completion time by kind of job",
        tuple(Column(_bin_heading(name, summaries), _bin_words(name)) for name in present_bins(summaries)),
        f"Small: a gang of at most {SMALL_GANG_SIZE}. Short: at most {SHORT_S:.0f} s alone.",
    )


def _bin_heading(name: str, summaries: Sequence[Summary]) -> str:
    return f"{name.capitalize()}\n{job_counts([summary.bins[name].count for summary in summaries])}"


def _bin_words(name: str) -> Callable[[Summary, Summary], str]:
    return lambda summary, _: duration(summary.bins[name].mean_jct_s)


def _class_groups(summaries: Sequence[Summary], names: Sequence[str]) -> tuple[ColumnGroup, ColumnGroup]:
    note = said_of_classes(summaries, names)
    return (
        ColumnGroup("Mean completion time by class", _class_columns(summaries, lambda of: of.mean_jct_s), note),
        ColumnGroup("p95 completion time by class", _class_columns(summaries, lambda of: of.p95_jct_s), AUTO_NOTE),
    )


def _class_columns(summaries: Sequence[Summary], figure: Callable[[ClassSummary], float]) -> tuple[Column, ...]:
    def column(name: str) -> Column:
        def words(summary: Summary, _: Summary) -> str:
            return duration(figure(summary.classes[name])) if name in summary.classes else MISSING

        counts = [summary.classes[name].count if name in summary.classes else 0 for summary in summaries]
        return Column(f"{name.capitalize()}\n{job_counts(counts)}", words)

    everything = Column(
        f"All\n{job_counts([summary.jobs for summary in summaries])}",
        lambda summary, _: duration(figure(summary.all_jobs)),
    )
    return (*map(column, present_classes(summaries)), everything)


AUTO_NOTE = (
    "The class is what a job asked for. Auto: guaranteed where its tenant's quota has room, else like an "
    "opportunistic one; without quotas, a peer of the guaranteed."
)

COMPLETION = ColumnGroup(
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

CLUSTER = ColumnGroup(
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


# ---- What happened, in sentences: computed from the same figures as the tables.

MOST_COMPARED = 3
"""Policies that a sentence compares with the best: those that come next, and the last."""
EQUAL_WITHIN = 0.01
"""Means that differ by less are called equal."""


def what_happened(summaries: Sequence[Summary], names: Sequence[str]) -> list[str]:
    """The most important first: which policy was best, or where classes count, what can be compared; then each class
    and each policy."""
    by_policy = [f"{name}: {_about(summary)}" for name, summary in zip(names, summaries, strict=True)]
    if not classes_count(summaries):
        return [_over_all(summaries, names), *by_policy]
    by_class = [_of_class(name, summaries, names) for name in present_classes(summaries)]
    return [said_of_classes(summaries, names), *by_class, _over_all(summaries, names), *by_policy]


def _over_all(summaries: Sequence[Summary], names: Sequence[str]) -> str:
    """Which policy had the shortest mean completion time, against each of the others."""
    jobs = job_counts([summary.jobs for summary in summaries])
    means_s = {name: summary.mean_jct_s for name, summary in zip(names, summaries, strict=True)}
    if len(means_s) == 1:
        return f"{jobs} under {names[0]} took {duration(summaries[0].mean_jct_s)} each on average."
    return f"{jobs} in all: {_compared(means_s)}"


def _compared(means_s: Mapping[str, float]) -> str:
    """The shortest mean, and by how much it is shorter than each other; those that come near are called equal."""
    ranked = sorted(means_s.items(), key=lambda each: each[1])
    best_s = ranked[0][1]
    best = [name for name, mean_s in ranked if mean_s <= best_s * (1 + EQUAL_WITHIN)]
    others = [(name, mean_s) for name, mean_s in ranked if name not in best]
    if not others:
        return f"the mean completion times are within {EQUAL_WITHIN:.0%} of each other ({_with_means(ranked)})."
    had = "had the shortest mean completion time" if len(best) == 1 else "had equally short mean completion times"
    behind = [_behind(*each, best_s) for each in others]
    if len(behind) > MOST_COMPARED:
        between = len(behind) - MOST_COMPARED
        behind[MOST_COMPARED - 1 : -1] = [f"{between} more took longer than that"]
    return f"{listed(best)} {had}, {duration(best_s)}; {listed(behind)}."


def _behind(name: str, mean_s: float, best_s: float) -> str:
    if best_s <= 0:
        return f"{name} took {duration(mean_s)}"
    return f"{name} took {_times(mean_s / best_s)} as long ({duration(mean_s)})"


def _with_means(ranked: Sequence[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {duration(mean_s)}" for name, mean_s in ranked)


def _times(ratio: float) -> str:
    # Near 1 the second decimal is the difference; far from it, it is noise.
    return f"{ratio:.2f} times" if ratio < 2 else f"{ratio:.1f} times" if ratio < 100 else f"{ratio:,.0f} times"


def _about(summary: Summary) -> str:
    preempted = count_of(summary.preemptions, "preemption") if summary.preemptions else "no preemptions"
    return (
        f"a job took {duration(summary.mean_jct_s)} on average, {duration(summary.mean_queue_s)} of it without "
        f"devices, and 5 % of the jobs took longer than {duration(summary.p95_jct_s)}. The last job ended after "
        f"{duration(summary.makespan_s)}; until then {summary.utilisation:.0%} of the device time was held, with "
        f"{preempted}."
    )


def _of_class(name: str, summaries: Sequence[Summary], names: Sequence[str]) -> str:
    of_class = {
        policy: summary.classes[name]
        for policy, summary in zip(names, summaries, strict=True)
        if name in summary.classes
    }
    count, _, noun = job_counts([each.count for each in of_class.values()]).rpartition(" ")
    means_s = {policy: each.mean_jct_s for policy, each in of_class.items()}
    if len(means_s) == 1:
        ((policy, mean_s),) = means_s.items()
        return f"{count} {name} {noun} took {duration(mean_s)} each on average under {policy}."
    return f"{count} {name} {noun}: {_compared(means_s)}"
