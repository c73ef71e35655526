"""A policy that asks for no declared work decides the same whatever the future holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_helpers import (
    CLUSTERS,
    IDEAL,
    TIMES_S,
    VARIANTS,
    WORLDS,
    Log,
    Variant,
    build,
    decisions,
    in_worlds,
    label,
    steady,
    trace_jobs,
)

from weft.core.commands import Command, WakeAt
from weft.sim.trace import TraceJob
from weft.sim.world import World

BLIND = [variant for variant in VARIANTS if not build(variant).needs_declared_work]

MARGIN_S = 0.01
"""An end this close to the instant could fall on either side of it."""


def before(log: Log, t: float) -> list[tuple[float, list[Command]]]:
    """To the nanosecond: of two events at one instant either may come first, and their times are summed up anew."""
    return [(round(now, 9), [_rounded(command) for command in commands]) for now, commands in log if now < t]


def _rounded(command: Command) -> Command:
    return WakeAt(round(command.time_s, 9)) if isinstance(command, WakeAt) else command


@st.composite
def other_futures(draw: st.DrawFn, jobs: list[TraceJob], finish_s: dict[str, float], t: float) -> list[TraceJob]:
    """The same until t; then other durations, declarations and arrivals."""
    future = []
    for job in jobs:
        if finish_s[job.spec.id] <= t + MARGIN_S:
            future.append(job)
            continue
        duration_s = job.duration_s + draw(TIMES_S)
        if job.arrival_s > t:
            fate = draw(st.sampled_from(("dropped", "moved", "kept")))
            if fate == "dropped":
                continue
            arrival_s = t + MARGIN_S + draw(TIMES_S) if fate == "moved" else job.arrival_s
            duration_s = draw(TIMES_S) + 0.25
        else:
            arrival_s = job.arrival_s
        future.append(TraceJob(replace(job.spec, declared_steps=duration_s), arrival_s, duration_s))
    return future


@in_worlds(BLIND, WORLDS)
@given(data=st.data())
@steady(6)
def test_commands_until_t_do_not_depend_on_what_comes_after_t(
    world: World, variant: Variant, data: st.DataObject
) -> None:
    cluster = data.draw(CLUSTERS)
    jobs = data.draw(trace_jobs(cluster, max_size=15))
    simulation, log = decisions(jobs, cluster, build(variant), world)
    table = simulation.jobs()
    t = data.draw(st.floats(0.1, 0.9)) * float(table.finish_s.max())
    finish_s = dict(zip(table.ids, table.finish_s.tolist(), strict=True))
    future = data.draw(other_futures(jobs, finish_s, t))
    newcomers = data.draw(trace_jobs(cluster, max_size=3, prefix="new"))
    future += [replace(job, arrival_s=t + MARGIN_S + job.arrival_s) for job in newcomers]
    _, other_log = decisions(future, cluster, build(variant), world)
    assert before(other_log, t) == before(log, t)


@pytest.mark.parametrize("variant", BLIND, ids=label)
@given(data=st.data())
@steady(5)
def test_what_a_job_declares_makes_no_difference(variant: Variant, data: st.DataObject) -> None:
    # In the ideal world the truth is the duration wherever nothing is declared, so declarations can be dropped.
    cluster = data.draw(CLUSTERS)
    jobs = data.draw(trace_jobs(cluster, max_size=15))
    silent = [replace(job, spec=replace(job.spec, declared_steps=None)) for job in jobs]
    _, log = decisions(jobs, cluster, build(variant), IDEAL)
    _, silent_log = decisions(silent, cluster, build(variant), IDEAL)
    assert silent_log == log
