"""Random clusters and traces, every policy in several settings, and runs that are watched at each decision."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from extent import pairs
from plans import agreed, from_scratch
from weft.core.commands import Command
from weft.core.job import Job
from weft.core.plan import Plan
from weft.core.reasons import Reason
from weft.core.scheduler import Scheduler
from weft.core.transitions import State
from weft.core.values import Cluster, JobSpec, Node
from weft.core.view import Decider, View
from weft.policies.plan.incremental import IncrementalPlanner
from weft.policies.policy import Policy
from weft.policies.registry import POLICIES
from weft.sim.colocation import Fitted
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import World

EXPLORE = int(os.environ.get("EXPLORE", "0"))
"""How many times more examples to try, new ones at each run, and shrink the one that fails (which takes minutes).
Without it every run tries the same ones."""

PHASES = (Phase.explicit, Phase.generate, *((Phase.shrink,) if EXPLORE else ()))


def steady(examples: int) -> settings:
    return settings(
        phases=PHASES,
        max_examples=examples * max(1, EXPLORE),
        derandomize=not EXPLORE,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


# ---- policies

SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"thresholds": (6.0,), "quantum_s": 2.5, "history": (4.0, 8.0, 12.0, 30.0), "pack_limit": 0.7, "alpha": 0.5},
    {"thresholds": (4.0, 15.0, 40.0), "quantum_s": 1.0, "promote_knob": 0.75, "alpha": 0.1, "in_lane": "fifo"},
    {"thresholds": (5.0, 25.0), "quantum_s": 4.0, "bypass_limit_s": 12.5, "guests": 3, "margin": 0.3},
    {"thresholds": (5.0,), "quantum_s": 0.5, "bypass_limit_s": 3.0, "promote_knob": 2.0, "history": (5.0, 50.0)}
    | {"in_lane": "srtf", "busy": 1.0, "back_off_s": 5.0},
)
"""What to set, where a policy has such a parameter."""

Variant = tuple[str, dict[str, Any]]


def variants_of(name: str) -> list[Variant]:
    accepted = inspect.signature(POLICIES[name]).parameters
    variants: list[Variant] = []
    for wanted in SETTINGS:
        given = {key: value for key, value in wanted.items() if key in accepted}
        if (name, given) not in variants:
            variants.append((name, given))
    return variants


VARIANTS = [variant for name in POLICIES for variant in variants_of(name)]


def label(variant: Variant) -> str:
    name, given = variant
    return ",".join([name, *(f"{key}={value}" for key, value in given.items())])


def in_worlds(variants: Sequence[Variant], worlds: Sequence[World]) -> pytest.MarkDecorator:
    """Runs a test with each of these variants in each of these worlds, or with a reduced matrix of them.

    The reduced one has every variant once, and every policy in every world. That is every meaning: settings are read
    by the policy's own stages, and a world says which events come and when. The two meet in the planner and in the
    stages that share devices, which a policy has in all its settings. So a fault shows with one of the policy's
    settings, or in one of the worlds.
    """
    groups = [[each for each in variants if each[0] == name] for name in dict.fromkeys(name for name, _ in variants)]
    chosen = pairs(groups, worlds)
    ids = [f"{label(variant)}-{world.name}" for variant, world in chosen]
    return pytest.mark.parametrize(("variant", "world"), chosen, ids=ids)


def build(variant: Variant) -> Policy:
    name, given = variant
    return POLICIES[name](**given)


# ---- clusters and traces

COARSE_S = st.integers(0, 160).map(lambda quarters: quarters / 4)
"""Quarters of a second add up without rounding, and many of them are ties."""
FINE_S = st.floats(0.0, 40.0, allow_nan=False).map(lambda seconds: round(seconds, 3))
TIMES_S = st.one_of(COARSE_S, FINE_S)

ONE_TYPE = st.lists(st.sampled_from((1, 2, 3, 4, 4)), min_size=1, max_size=4).map(
    lambda sizes: Cluster(tuple(Node(f"n{i}", size) for i, size in enumerate(sizes)))
)
TWO_TYPES = st.lists(
    st.tuples(st.sampled_from((1, 2, 4)), st.sampled_from(("V100", "K80"))), min_size=2, max_size=4
).map(lambda nodes: Cluster(tuple(Node(f"n{i}", size, kind) for i, (size, kind) in enumerate(nodes))))
CLUSTERS = st.one_of(ONE_TYPE, TWO_TYPES)

TYPES_WANTED = (None, None, frozenset({"V100"}), frozenset({"K80"}), frozenset({"V100", "K80"}))
RATES_HZ: tuple[dict[str, float], ...] = ({}, {}, {"V100": 1.0, "K80": 0.25}, {"V100": 0.5, "K80": 2.0})
SKEWS = (0.0, 0.0, 0.1, 0.5, 1.5)
MIN_RUNS_S = (0.0, 0.0, 0.0, 2.5, 11.3)
TRAITS = tuple(product("abc", SKEWS, MIN_RUNS_S, TYPES_WANTED, RATES_HZ))
JOBS = st.tuples(TIMES_S, TIMES_S, st.sampled_from(TRAITS), st.integers(0, 15))
"""Made once, and few choices a job: to make strategies and to choose takes longer than to simulate what was chosen."""


@st.composite
def trace_jobs(draw: st.DrawFn, cluster: Cluster, max_size: int = 25, prefix: str = "j") -> list[TraceJob]:
    """Jobs that the cluster could hold if it were empty. The first arrives at 0, which is where every trace begins."""
    is_mixed = len(cluster.device_types) > 1
    jobs = []
    for i in range(draw(st.integers(1, max_size))):
        arrival_s, least_s, (tenant, skew, min_run_s, types, rates_hz), gang = draw(JOBS)
        duration_s = least_s + 0.25
        spec = JobSpec(
            f"{prefix}{i}",
            tenant=tenant,
            device_types=types if is_mixed else None,
            step_rate_hz=rates_hz if is_mixed else {},
            declared_steps=duration_s,
            skew=skew,
            min_run_s=min_run_s,
        )
        spec = replace(spec, gang_size=1 + gang % cluster.largest_gang(spec))
        jobs.append(TraceJob(spec, arrival_s if i else 0.0, duration_s))
    return jobs


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Cluster, list[TraceJob]]:
    cluster = draw(CLUSTERS)
    return cluster, draw(trace_jobs(cluster))


# ---- watched runs

IDEAL = World("ideal", counts_only=True, preemption_s=0.0)
REAL = World("real", counts_only=False, preemption_s=0.125, speed={"any": 1.0, "V100": 1.0, "K80": 0.4})
"""A start costs less than the shortest quantum above: else jobs could take turns for ever and get nowhere."""
SHARED = World(
    "shared",
    counts_only=False,
    preemption_s=0.125,
    pause_s=0.03,
    measure_s=0.5,
    rate_noise=0.05,
    speed={"any": 1.0, "V100": 1.0, "K80": 0.4},
    memory={"any": 100, "V100": 100, "K80": 60},
    unknown_memory=((1, 0), (5, 40), (10, 20), (30, 30)),
    unknown_utilisation=((0.1, 1.0), (0.3, 2.0), (0.6, 1.2), (1.0, 0.7)),
    interference=Fitted(0.2),
)
"""Memory and utilisation are known, so that jobs may share devices."""
WORLDS = (IDEAL, REAL, SHARED)

MOST_DECISIONS = 20_000
"""More than any of these small traces needs: a policy that gets nowhere fails instead of hanging."""

Log = list[tuple[float, list[Command]]]


def check_ledger(scheduler: Scheduler, now: float) -> None:
    scheduler.ledger.validate()


def run_watched(
    jobs: list[TraceJob],
    cluster: Cluster,
    policy: Decider,
    world: World,
    watch: Callable[[Scheduler, float], None] = check_ledger,
) -> tuple[Simulation, Log]:
    """Simulate; after every decision `watch` looks."""
    simulation = Simulation(Trace.of(jobs), cluster, policy, world)
    scheduler, log = simulation.scheduler, Log()
    handle = scheduler.handle

    def watched(events: Any, now: float) -> list[Command]:
        commands = handle(events, now)
        assert len(log) < MOST_DECISIONS, f"no end in sight at {now} s"
        watch(scheduler, now)
        log.append((now, commands))
        return commands

    scheduler.handle = watched  # type: ignore[method-assign]
    simulation.run()
    return simulation, log


def decisions(jobs: list[TraceJob], cluster: Cluster, policy: Decider, world: World) -> tuple[Simulation, Log]:
    """For tests that compare runs: what holds of each is checked in test_every_policy.py."""
    return run_watched(jobs, cluster, policy, world, watch=lambda scheduler, now: None)


def check_reasons(scheduler: Scheduler, now: float) -> None:
    """Every job that does not run can say why, in words; one that runs has nothing to explain."""
    for job in scheduler.ledger.jobs.values():
        reason = scheduler.reason(job.id, now)
        if job.state is State.RUNNING:
            assert reason is None
        else:
            assert reason is not None
            assert str(reason)


# ---- the fast planner beside the plain one


def is_incremental(variant: Variant) -> bool:
    return isinstance(build(variant).planner, IncrementalPlanner)


INCREMENTAL = [variant for variant in VARIANTS if is_incremental(variant)]


class Twin:
    """Decides with indexes and from scratch, and insists that both plans are one."""

    def __init__(self, variant: Variant) -> None:
        self._fast, self._plain = build(variant), from_scratch(build(variant))
        if self._fast.share is not None:
            self.seat, self.learns_from_measures = self._fast.seat, True

    def decide(self, view: View) -> Plan:
        return agreed(self._fast.decide(view), self._plain.decide(view), view.now)

    def explain(self, view: View, job: Job) -> Reason:
        return self._fast.explain(view, job)
