"""Nodes that fail under a simulation: who computes there loses what it has not saved, and the scheduler knows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from weft.core.events import Event
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.registry import POLICIES
from weft.sim.engine import SAVED_EVERY_S, Simulation
from weft.sim.simulated_job import SimulatedJob
from weft.sim.trace import Trace, TraceJob
from weft.sim.world.world_file import load_world

CLUSTER = Cluster((Node("n0", 1), Node("n1", 1)))
FAILING = replace(load_world("default"), mtbf_s=20_000.0, repair_s=600.0)


class Watched(Simulation):
    """Notes of every job whose node has failed what the scheduler takes it to have done then, and what it has."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.lost: list[SimulatedJob] = []
        self.reckoned: list[tuple[float, float]] = []

    def _lose(self, living: SimulatedJob, now: float) -> None:
        super()._lose(living, now)
        self.lost.append(living)

    def _step(self, events: list[Event], now: float) -> None:
        super()._step(events, now)
        for living in self.lost:
            job = self.scheduler.ledger.jobs[living.spec.id]
            self.reckoned.append((job.steps_done(now), living.progress(now).steps_done))
        self.lost.clear()


@pytest.mark.parametrize("policy", ["srtf", "tiresias-l", "gandiva", "weft"])
def test_what_a_failure_cost_is_known_at_once_and_done_again(policy: str) -> None:
    jobs = [TraceJob(JobSpec(f"j{i}", declared_steps=30_000.0), 10.0 * i, 30_000.0) for i in range(2)]
    simulation = Watched(Trace.of(jobs), CLUSTER, POLICIES[policy](), FAILING, 5)
    simulation.run()
    assert simulation.reckoned, "no node has failed"
    for reckoned, real in simulation.reckoned:
        assert reckoned == pytest.approx(real, abs=1.0)
    again_s = simulation.jobs().run_s.sum() - sum(job.duration_s for job in jobs)
    lost_at_most_s = SAVED_EVERY_S + FAILING.preemption_s
    assert 0 < again_s <= len(simulation.reckoned) * lost_at_most_s
