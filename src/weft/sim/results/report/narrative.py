"""What happened, in sentences: computed from the same figures as the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.core.text import count_of
from weft.sim.results.report.rows import classes_count, duration, job_counts, listed, present_classes, said_of_classes
from weft.sim.results.summary import Summary

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
