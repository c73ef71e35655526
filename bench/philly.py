"""Philly, first 20,000 jobs, 512 devices, ideal world: is it right, and how fast is it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from figures import Figure
from weft.core.values import Cluster, nodes_of
from weft.policies.order.tiresias import ServiceQueues
from weft.policies.placement import SkewAware
from weft.policies.policy import Policy
from weft.sim.engine import Simulation
from weft.sim.trace import Trace, read_trace
from weft.sim.world import load_world

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from reference import simulate as reference

JOBS, ALL_JOBS, DEVICES = 20_000, 82_247, 512
NINE = "tiresias-l:thresholds=" + "/".join(str(300 * 4**i) for i in range(9))
PEERS = (
    "peers, CPU-s for 20,000 similar jobs: Tiresias' own 138, PAI's 58-77; for 5,000: Gavel, Helios, Lucid, Blox 20-270"
)


def weft_simulate(path: Path, jobs: int, policies: Sequence[str]) -> tuple[list[dict[str, float]], float, float]:
    """Run the command as a user would. Returns its runs, wall seconds and CPU seconds seen from outside."""
    command = [
        str(Path(sys.executable).with_name("weft")),
        "simulate",
        str(path),
        "--cluster",
        "64x8",
        "--world",
        "ideal",
    ]
    command += ["--jobs", str(jobs), "--policy", ",".join(policies), "--json", "-"]
    before, started = os.times(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall_s, after = time.perf_counter() - started, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    return json.loads(done.stdout)["runs"], wall_s, cpu_s


def correctness(path: Path) -> list[Figure]:
    trace = read_trace([path], first=JOBS)
    jobs = [(job.arrival_s, job.duration_s, job.spec.gang_size) for job in trace]
    names = ["fifo", "backfill", "srtf", "srsf"]
    with ProcessPoolExecutor() as pool:
        references = [pool.submit(reference, jobs, DEVICES, name) for name in names]
        finishes = pool.map(_finish_s, [str(path)] * len(names), names)
        figures = []
        for name, finish_s, expected in zip(names, finishes, references, strict=True):
            worst_s = max(abs(a - b) for a, b in zip(finish_s, expected.result(), strict=True))
            figures.append(
                Figure(f"{name}: largest difference to the reference", f"{worst_s:g} s", "< 1 s", worst_s < 1)
            )
    runs, _, _ = weft_simulate(path, JOBS, ["fifo", "srsf", "tiresias-l", NINE])
    fifo, srsf, two, nine = (run["mean_jct_s"] for run in runs)
    return [
        *figures,
        Figure("tiresias-l (3,250): mean below fifo by", f"{fifo / two:.2f} times", ">= 3.5", fifo / two >= 3.5),
        Figure("tiresias-l (300 x 4^i, nine): mean over srsf", f"{nine / srsf:.3f}", "<= 1.25", nine / srsf <= 1.25),
    ]


def _finish_s(path: str, name: str) -> list[float]:
    from weft.policies.registry import POLICIES

    trace = read_trace([path], first=JOBS)
    simulation = Simulation(trace, Cluster(nodes_of([(64, 8, "any")])), POLICIES[name](), load_world("ideal"))
    simulation.run()
    finishes: list[float] = simulation.jobs().finish_s.tolist()
    return finishes


def speed(path: Path) -> list[Figure]:
    figures = []
    for jobs in (JOBS, ALL_JOBS):
        (run,), wall_s, cpu_s = weft_simulate(path, jobs, ["tiresias-l"])
        inside, outside = jobs / run["wall_s"], jobs / wall_s
        figures += [
            Figure(
                f"tiresias-l, {jobs:,} jobs, the run",
                f"{inside:,.0f} jobs/s",
                ">= 10,000",
                inside >= 10_000,
                key="simulator-speed" if jobs == JOBS else "",
            ),
            Figure("    the whole command, from outside", f"{outside:,.0f} jobs/s", ">= 10,000", outside >= 10_000),
            Figure("    its CPU time", f"{cpu_s:.1f} s"),
        ]
    trace = read_trace([path], first=JOBS)
    fast_s, plain_s = _run_s(trace, from_scratch=False), _run_s(trace, from_scratch=True)
    figures.append(
        Figure(
            "    from-scratch planner over incremental, CPU",
            f"{plain_s / fast_s:.1f} times",
            ">= 5",
            plain_s >= 5 * fast_s,
        )
    )
    figures.append(Figure("", "", peers=PEERS))
    return figures


def _run_s(trace: Trace, from_scratch: bool) -> float:
    policy = Policy(ServiceQueues((3250.0,)), place=SkewAware(0.2), from_scratch=from_scratch)
    simulation = Simulation(trace, Cluster(nodes_of([(64, 8, "any")])), policy, load_world("ideal"))
    started = time.process_time()
    simulation.run()
    return time.process_time() - started
