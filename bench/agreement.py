"""Live agrees with simulated: what the simulator says of a workload before it runs, beside what then happens."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

import weft
from figures import Figure
from live import weft_here
from weft.core.values import Cluster, JobSpec, Node
from weft.sim.lived import lived_run
from weft.sim.metrics import summarise
from weft.sim.trace import TraceJob

TRAIN = Path(__file__).parents[1] / "demo" / "train.py"
PREDICTION = Path("out/prediction.json")
POLICIES = ("fifo", "tiresias-l:thresholds=5")
FEW, MANY = 60, 900
"""Steps of the two exclusive runs that tell a step's time from that of starting up."""
JOBS = [(0.0, 900), (0.5, 900), (3.0, 60), (4.0, 60), (6.0, 200), (8.0, 60)]
"""When each is submitted, and how many steps it trains."""


def agreement() -> list[Figure]:
    """One device, so that jobs that run at the same time do not slow each other down: that comes with interference."""
    with weft_here(devices="cpu=1") as client:
        start_s, step_s = _measured(client)
    predicted = {policy: _predicted_s(policy, start_s, step_s) for policy in POLICIES}
    PREDICTION.parent.mkdir(exist_ok=True)
    PREDICTION.write_text(json.dumps({"start_s": start_s, "step_s": step_s, "mean_jct_s": predicted}, indent=1))
    figures = []
    for policy in POLICIES:
        with weft_here(devices="cpu=1", policy=policy) as client:
            live_s = _lived_s(client, policy)
        ratio = live_s / predicted[policy]
        measured = f"{live_s:.1f} / {predicted[policy]:.1f} s = {ratio:.3f}"
        figures.append(Figure(f"{policy}: live / predicted", measured, "within 10 %", abs(ratio - 1) <= 0.1))
    return figures


def _measured(client: weft.Client) -> tuple[float, float]:
    """Seconds to start up and for a step, from runs with nobody else on the machine."""
    few = statistics.median(_run_s(client, FEW) for _ in range(3))
    many = statistics.median(_run_s(client, MANY) for _ in range(3))
    step_s = (many - few) / (MANY - FEW)
    return few - FEW * step_s, step_s


def _run_s(client: weft.Client, steps: int) -> float:
    return float(client.run([sys.executable, str(TRAIN), str(steps)])["run_s"])


def _predicted_s(policy: str, start_s: float, step_s: float) -> float:
    jobs = [TraceJob(JobSpec(str(at)), at_s, start_s + steps * step_s) for at, (at_s, steps) in enumerate(JOBS)]
    results = weft.simulate(jobs, cluster=Cluster((Node("here", 1, "cpu"),)), policy=policy, world="ideal")
    return summarise(results[0]).mean_jct_s


def _lived_s(client: weft.Client, policy: str) -> float:
    begun_s = time.monotonic()
    ids = []
    for at_s, steps in JOBS:
        time.sleep(max(0.0, begun_s + at_s - time.monotonic()))
        ids.append(client.submit([sys.executable, str(TRAIN), str(steps)]))
    jobs = [client.wait(job_id) for job_id in ids]
    return summarise(
        lived_run(policy, jobs, {job_id: client.events(job_id) for job_id in ids}, client.nodes())
    ).mean_jct_s
