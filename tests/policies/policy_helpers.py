"""Running small traces in the ideal world, and the published figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.core.values import Cluster, JobSpec, nodes_of
from weft.core.view import Decider
from weft.sim.engine import Simulation
from weft.sim.results.summary import JobTable
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import World

FIXTURES = Path(__file__).parent.parent / "fixtures"

IDEAL = World("ideal", counts_only=True, preemption_s=0.0)
PLAIN = World("plain", counts_only=False, preemption_s=0.0, speed={"any": 1.0})


def cluster(*shape: tuple[int, int, str]) -> Cluster:
    return Cluster(nodes_of(shape))


def job(job_id: str, arrival_s: float, duration_s: float, gang_size: int = 1) -> TraceJob:
    return TraceJob(JobSpec(job_id, gang_size, declared_steps=duration_s), arrival_s, duration_s)


def run(jobs: Trace | Sequence[TraceJob], on: Cluster, policy: Decider, world: World = IDEAL) -> JobTable:
    trace = jobs if isinstance(jobs, Trace) else Trace.of(jobs)
    simulation = Simulation(trace, on, policy, world)
    simulation.run()
    return simulation.jobs()


def by_id(table: JobTable, column: str) -> dict[str, float]:
    return dict(zip(table.ids, getattr(table, column).tolist(), strict=True))
