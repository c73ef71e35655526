"""What the report draws, whatever the runs are: every axis has ticks, every bar starts at zero, nothing is empty."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from make_runs import job_table, make_run

from weft.sim.results.report.figures import MOST_TICKS, Figure, figures
from weft.sim.results.report.rows import what_happened
from weft.sim.results.summary import BIN_NAMES, CLASS_NAMES, PolicyRun, summarise

SECONDS = st.one_of(st.just(0.0), st.floats(1e-3, 10.0), st.floats(1.0, 1e9))


@st.composite
def several_runs(draw: st.DrawFn) -> list[PolicyRun]:
    """One policy or more over the same jobs; zeros, huge ratios, and classes or kinds that no job has."""
    count = draw(st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    arrival_s = sorted(column(SECONDS))
    gang_size, classes = column(st.integers(1, 9)), column(st.sampled_from(CLASS_NAMES))
    alone_s = column(SECONDS)
    runs = []
    for index in range(draw(st.integers(1, 12))):
        waited_s = column(SECONDS)
        finish_s = [sum(each) for each in zip(arrival_s, waited_s, alone_s, strict=True)]
        table = job_table(arrival_s, finish_s, alone_s, gang_size=gang_size, classes=classes)
        runs.append(make_run(table, f"policy-{index}", heeds_classes=draw(st.booleans()), device_count=54))
    return runs


def drawn(runs: list[PolicyRun]) -> list[Figure]:
    return figures(runs, [run.policy for run in runs], [summarise(run) for run in runs])


def position(axis: dict[str, Any], value: Any) -> float:
    """Where a value stands on its axis, 0 at the start and 1 at the end."""
    first, last = axis["range"]
    if axis["type"] == "category":
        value = axis["tickvals"].index(value)
    return float(((math.log10(value) if axis["type"] == "log" else value) - first) / (last - first))


@settings(max_examples=150, deadline=None)
@given(several_runs())
def test_every_axis_has_labelled_ticks_within_its_range(runs: list[PolicyRun]) -> None:
    for figure in drawn(runs):
        for name in ("xaxis", "yaxis"):
            axis = figure.layout[name]
            assert all(math.isfinite(end) for end in axis["range"])
            assert len(axis["tickvals"]) == len(axis["ticktext"]) >= (1 if axis["type"] == "category" else 2)
            assert len(axis["tickvals"]) <= MOST_TICKS or axis["type"] == "category"
            assert all(axis["ticktext"])
            assert len(set(axis["ticktext"])) == len(axis["ticktext"])
            assert all(-1e-9 <= position(axis, tick) <= 1 + 1e-9 for tick in axis["tickvals"])


@settings(max_examples=150, deadline=None)
@given(several_runs())
def test_bars_start_at_zero_and_are_as_long_as_what_they_stand_for(runs: list[PolicyRun]) -> None:
    summaries = [summarise(run) for run in runs]
    for figure in drawn(runs):
        if figure.name not in ("kinds", "classes"):
            continue
        axis = figure.layout["xaxis"]
        assert (axis["type"], axis["range"][0]) == ("linear", 0.0)
        assert max(x for trace in figure.traces for x in trace["x"]) <= axis["range"][1]
        means_s = []
        for trace, summary in zip(figure.traces, summaries, strict=True):
            assert (trace["orientation"], trace.get("base", 0)) == ("h", 0)
            names, of = (BIN_NAMES, summary.bins) if figure.name == "kinds" else (CLASS_NAMES, summary.classes)
            values_s = [mean_s for name in names if name in of and (mean_s := of[name].mean_jct_s) is not None]
            assert len(values_s) == len(trace["x"])
            means_s += list(zip(trace["x"], values_s, strict=True))
        longest_x, longest_s = max(means_s)
        assert all(math.isclose(x * longest_s, mean_s * longest_x, abs_tol=1e-9) for x, mean_s in means_s)


@settings(max_examples=150, deadline=None)
@given(several_runs())
def test_no_category_is_without_data_and_none_with_data_is_missing(runs: list[PolicyRun]) -> None:
    for figure in drawn(runs):
        if figure.name in ("kinds", "classes"):
            shown = {name for trace in figure.traces for name in trace["y"]}
            assert shown == set(figure.layout["yaxis"]["tickvals"])
            assert shown


@settings(max_examples=50, deadline=None)
@given(several_runs())
def test_no_line_leaves_its_figure(runs: list[PolicyRun]) -> None:
    for figure in drawn(runs):
        for trace in figure.traces if figure.name not in ("kinds", "classes") else ():
            for name in ("x", "y"):
                axis = figure.layout[f"{name}axis"]
                assert all(position(axis, value) <= 1.02 for value in trace[name])


@settings(max_examples=100, deadline=None)
@given(several_runs())
def test_what_happened_can_be_said_of_any_runs(runs: list[PolicyRun]) -> None:
    sentences = what_happened([summarise(run) for run in runs], [run.policy for run in runs])
    for run in runs:
        assert len([each for each in sentences if each.startswith(f"{run.policy}: ")]) == 1
    assert all(each.endswith(".") and "nan" not in each and "inf" not in each for each in sentences)


def test_a_figure_by_class_is_there_when_a_policy_heeds_classes_and_there_are_several() -> None:
    def names(*classes: str, heeds_classes: bool) -> list[str]:
        table = job_table([0.0] * 2, [9.0] * 2, [9.0] * 2, classes=classes)
        return [figure.name for figure in drawn([make_run(table, heeds_classes=heeds_classes)])]

    assert "classes" in names("auto", "opportunistic", heeds_classes=True)
    assert "classes" not in names("auto", "opportunistic", heeds_classes=False)
    assert "classes" not in names("auto", "auto", heeds_classes=True)
