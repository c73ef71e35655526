"""Live agrees with simulated: what the simulator says of a workload before it runs, beside what then happens."""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import weft
from figures import Figure
from live import weft_here
from weft.core.values import Cluster, JobSpec, Node
from weft.sim.past_jobs import past_run
from weft.sim.results.summary import summarise
from weft.sim.trace import TraceJob

TRAIN = Path(__file__).parents[1] / "demo" / "train.py"
PREDICTION = Path("out/prediction.json")
POLICIES = ("fifo", "tiresias-l:thresholds=5")
ROUNDS = 3
"""The machine drifts by a tenth within minutes: each round measures it afresh, and the median round is judged."""
FEW, MANY = 60, 900
"""Steps of the two exclusive runs that tell a step's time from that of starting up."""
JOBS = [(0.0, 900), (0.5, 900), (3.0, 60), (4.0, 60), (6.0, 200), (8.0, 60)]
"""When each is submitted, and how many steps it trains."""


@dataclass(frozen=True)
class Speed:
    """What exclusive runs say of a job."""

    start_s: float
    step_s: float

    def run_s(self, steps: int) -> float:
        return self.start_s + steps * self.step_s


def agreement() -> list[Figure]:
    """One device, so that jobs that run at the same time do not slow each other down: that comes with interference."""
    speeds = [_measured()]
    ratios: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    PREDICTION.parent.mkdir(exist_ok=True)
    for _ in range(ROUNDS):
        predicted_s = {policy: _predicted_s(policy, speeds[-1]) for policy in POLICIES}
        PREDICTION.write_text(json.dumps({**asdict(speeds[-1]), "mean_jct_s": predicted_s}, indent=1))
        for policy in POLICIES:
            ratios[policy].append(_lived_s(policy) / predicted_s[policy])
        speeds.append(_measured())
    return [*(_figure(policy, ratios[policy]) for policy in POLICIES), _drift(speeds)]


def _figure(policy: str, ratios: list[float]) -> Figure:
    median = statistics.median(ratios)
    measured = f"{median:.3f} (rounds: {', '.join(f'{ratio:.3f}' for ratio in ratios)})"
    return Figure(f"{policy}: live / predicted", measured, "within 10 %", abs(median - 1) <= 0.1)


def _drift(speeds: list[Speed]) -> Figure:
    """The noise floor: a job alone, after a round against before it, which no prediction can know."""
    drifts = [after.run_s(MANY) / before.run_s(MANY) for before, after in pairwise(speeds)]
    return Figure("the same job alone, after / before each round", ", ".join(f"{drift:.3f}" for drift in drifts))


def _measured() -> Speed:
    """From runs with nobody else on the machine."""
    with weft_here(devices="cpu=1") as client:
        few_s, many_s = (statistics.median(_run_s(client, steps) for _ in range(3)) for steps in (FEW, MANY))
    step_s = (many_s - few_s) / (MANY - FEW)
    return Speed(few_s - FEW * step_s, step_s)


def _run_s(client: weft.Client, steps: int) -> float:
    return float(client.run([sys.executable, str(TRAIN), str(steps)])["run_s"])


def _predicted_s(policy: str, speed: Speed) -> float:
    jobs = [TraceJob(JobSpec(str(at)), at_s, speed.run_s(steps)) for at, (at_s, steps) in enumerate(JOBS)]
    results = weft.simulate(jobs, cluster=Cluster((Node("here", 1, "cpu"),)), policy=policy, world="ideal")
    return summarise(results[0]).mean_jct_s


def _lived_s(policy: str) -> float:
    with weft_here(devices="cpu=1", policy=policy) as client:
        begun_s = time.monotonic()
        ids = []
        for at_s, steps in JOBS:
            time.sleep(max(0.0, begun_s + at_s - time.monotonic()))
            ids.append(client.submit([sys.executable, str(TRAIN), str(steps)]))
        jobs = [client.wait(job_id) for job_id in ids]
        events = {job_id: client.events(job_id) for job_id in ids}
        return summarise(past_run(policy, jobs, events, client.nodes())).mean_jct_s
