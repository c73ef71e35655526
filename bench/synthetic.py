"""Figures that need no trace: whether cost grows with what is finished, and how long AlloX thinks."""

from __future__ import annotations

import random
import statistics
import time

from figures import Figure
from weft.core.events import Event, Finished, Submitted
from weft.core.scheduler import Scheduler
from weft.core.values import Cluster, JobSpec, nodes_of
from weft.policies.registry import POLICIES
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, TraceJob
from weft.sim.world import load_world


def growth() -> list[Figure]:
    """The same steady load for ten times as long should cost the same per job."""
    short, long = (_us_per_job(jobs) for jobs in (6_000, 60_000))
    ratio = long / short
    return [
        Figure("tiresias-l, steady load: us per job over 6,000 jobs", f"{short:.0f} us"),
        Figure("    over 60,000 jobs", f"{long:.0f} us"),
        Figure("    growth", f"{ratio:.2f} times", "<= 1.15", ratio <= 1.15),
    ]


def _us_per_job(jobs: int) -> float:
    chance = random.Random(1)
    arrival_s, trace = 0.0, []
    for i in range(jobs):
        arrival_s += chance.expovariate(0.9 * 64 / (2.0 * 1000.0))
        duration_s, gang_size = chance.expovariate(1 / 1000.0), chance.choice([1, 1, 1, 1, 2, 4, 4])
        trace.append(TraceJob(JobSpec(f"job-{i}", gang_size), arrival_s, duration_s))
    policy, cluster = POLICIES["tiresias-l"](), Cluster(nodes_of([(8, 8, "any")]))
    simulation = Simulation(Trace.of(trace), cluster, policy, load_world("ideal"))
    started = time.process_time()
    simulation.run()
    return (time.process_time() - started) / jobs * 1e6


def allox(decisions: int = 200) -> list[Figure]:
    """1,000 jobs wait, 512 devices of three types are busy, one job ends and one comes at each decision."""
    chance = random.Random(2)
    cluster = Cluster(nodes_of([(32, 8, "V100"), (16, 8, "P100"), (16, 8, "K80")]))
    scheduler = Scheduler(cluster, POLICIES["allox"](n_max=50))
    scheduler.handle([Submitted(_job(i, chance)) for i in range(1_512)], 0.0)
    running = [(job.id, job.generation) for job in scheduler.ledger.jobs.values() if job.is_running]
    took_s = []
    for i in range(decisions):
        job_id, generation = running.pop(chance.randrange(len(running)))
        events: list[Event] = [Finished(job_id, generation), Submitted(_job(2_000 + i, chance))]
        started = time.perf_counter()
        commands = scheduler.handle(events, float(i + 1))
        took_s.append(time.perf_counter() - started)
        running += [(command.job_id, command.generation) for command in commands]
        assert scheduler.ledger.jobs_waiting >= 900
    median_ms, worst_ms = statistics.median(took_s) * 1e3, statistics.quantiles(took_s, n=100)[98] * 1e3
    return [
        Figure(
            "allox, 1,000 waiting, 512 devices, 3 types: a decision", f"{median_ms:.1f} ms", "<= 50 ms", median_ms <= 50
        ),
        Figure("    99th percentile", f"{worst_ms:.1f} ms", "<= 50 ms", worst_ms <= 50),
    ]


def _job(i: int, chance: random.Random) -> JobSpec:
    steps = chance.lognormvariate(7, 1.5)
    rates = {"V100": 1.0, "P100": chance.uniform(0.4, 0.95), "K80": chance.uniform(0.1, 0.4)}
    return JobSpec(f"job-{i}", tenant=f"tenant-{i % 10}", declared_steps=steps, step_rate_hz=rates)
