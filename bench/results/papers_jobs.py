"""The papers' own workloads, as far as their text describes them. What it leaves open is drawn by a seed."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

from weft.core.values import JobClass, JobSpec
from weft.sim.generate import LoadSpec, generate
from weft.sim.trace import Trace, TraceJob, read_trace

FORTY = Path(__file__).parents[2] / "tests" / "fixtures" / "allox-40.csv"
CNNS = (
    "vgg11", "vgg16", "vgg19", "alexnet", "resnet50", "resnet101", "resnet152", "inception3", "inception4", "googlenet",
)  # fmt: skip
NINE = ("resnet50", "resnet18", "transformer", "lstm", "recommendation", "a3c", "cyclegan", "vgg16", "bert")
MB = 1 << 20


# ---- Tiresias

BINS = (  # share, gang sizes, shortest and longest in seconds: T3's, of 2 min to 2 h in all
    (0.635, (1, 1, 2, 4), 120.0, 800.0),
    (0.125, (1, 2, 4), 800.0, 7200.0),
    (0.165, (8, 8, 8, 16), 120.0, 800.0),
    (0.075, (8, 8, 8, 16), 800.0, 7200.0),
)


def tiresias(jobs: str, seed: str) -> Trace:
    """T1: Poisson arrivals, 30 s apart on the average; ten CNNs."""
    chance, arrival_s, made = Random(int(seed)), 0.0, []
    for i in range(int(jobs)):
        _, gangs, low_s, high_s = chance.choices(BINS, [each[0] for each in BINS])[0]
        duration_s = math.exp(chance.uniform(math.log(low_s), math.log(high_s)))
        spec = JobSpec(f"job-{i}", chance.choice(gangs), declared_steps=duration_s, model=chance.choice(CNNS))
        made.append(TraceJob(spec, arrival_s, duration_s))
        arrival_s += chance.expovariate(1 / 30)
    return Trace.of(made, "T1")


# ---- Gandiva and AntMan

LONGEST_S = 4 * 3600.0
"""A job of the production-like traces is cut here: else one job's days would be the makespan."""


def production(jobs: str, load: str, devices: str, seed: str) -> Trace:
    """G6: gangs, durations and arrivals like Philly's, cut at four hours."""
    return Trace.of(_production(int(jobs), float(load), int(devices), int(seed)), "G6")


def two_tenants(jobs: str, load: str, who: str, seed: str) -> Trace:
    """A4: every other job is guaranteed and A's, the others are opportunistic and B's; nine models. Or A's alone."""
    chance, made = Random(int(seed)), []
    for i, job in enumerate(_production(int(jobs), float(load), 64, int(seed))):
        model = chance.choice(NINE)
        tenant, job_class = ("A", JobClass.GUARANTEED) if i % 2 == 0 else ("B", JobClass.OPPORTUNISTIC)
        spec = JobSpec(job.spec.id, job.spec.gang_size, tenant, job_class, declared_steps=job.duration_s, model=model)
        if who in ("both", tenant):
            made.append(TraceJob(spec, job.arrival_s, job.duration_s))
    return Trace.of(made, "A4")


def _production(jobs: int, load: float, devices: int, seed: int) -> list[TraceJob]:
    # Of its arrivals only the shape is kept: any load does that so many jobs can offer.
    drawn = generate(LoadSpec("philly", jobs, 0.1 * jobs / devices, devices, seed=seed))
    rows = list(zip(drawn.arrival_s.tolist(), drawn.duration_s.tolist(), drawn.gang_size.tolist(), strict=True))
    cut = [(arrival_s, min(duration_s, LONGEST_S), min(gang, 16)) for arrival_s, duration_s, gang in rows]
    span_s = sum(duration_s * gang for _, duration_s, gang in cut) / (load * devices)
    scale = span_s / rows[-1][0]
    return [
        TraceJob(JobSpec(f"job-{i}", gang, declared_steps=duration_s), scale * arrival_s, duration_s)
        for i, (arrival_s, duration_s, gang) in enumerate(cut)
    ]


# ---- AlloX

ON_X_AND_Y_S = {"J1": (10, 20), "J2": (15, 25), "J3": (20, 100), "J4": (20, 90)}


def four() -> Trace:
    """X1: the example of the slides."""
    return Trace.of(
        (
            TraceJob(JobSpec(name, declared_steps=1.0, step_rate_hz={"X": 1 / on_x, "Y": 1 / on_y}), 0.0, float(on_x))
            for name, (on_x, on_y) in ON_X_AND_Y_S.items()
        ),
        "X1",
    )


def forty() -> Trace:
    """X2: 40 jobs of four users, all at once."""
    return read_trace([FORTY])


def ten_users(jobs: str, between_s: str, seed: str) -> Trace:
    """X3 to X6: jobs drawn from the 40, each between half and twice as long, of ten users, Poisson arrivals."""
    with FORTY.open(encoding="utf-8") as file:
        known = [(float(row["cpu_s"]), float(row["gpu_s"])) for row in csv.DictReader(file)]
    chance, arrival_s, made = Random(int(seed)), 0.0, []
    for i in range(int(jobs)):
        cpu_s, gpu_s = chance.choice(known)
        steps = 1000.0 * chance.uniform(0.5, 2.0)
        rates = {"cpu": 1000.0 / cpu_s, "gpu": 1000.0 / gpu_s}
        spec = JobSpec(f"job-{i}", tenant=f"user-{i % 10}", declared_steps=steps, step_rate_hz=rates)
        made.append(TraceJob(spec, arrival_s, steps / rates["cpu"]))
        arrival_s += chance.expovariate(1 / float(between_s))
    return Trace.of(made, "X3")


# ---- Salus

FIFTEEN: Mapping[str, tuple[int, int]] = {  # P and T in MB; four sums are the published peaks, the others lie between
    "vae": (10, 18), "mnist": (15, 60), "superres": (40, 489), "seq2seq": (150, 2500), "speech": (200, 3793),
    "alexnet": (480, 1100), "googlenet": (60, 2400), "overfeat": (580, 1600), "resnet50": (210, 4300),
    "resnet101": (350, 6200), "resnet152": (480, 7900), "inception3": (190, 4700), "inception4": (500, 10855),
    "vgg16": (1060, 5100), "vgg19": (1100, 5600),
}  # fmt: skip
TOTAL_S = 303.4 * 60
"""Of all jobs one after the other: FIFO's makespan in the paper."""


def one_device(jobs: str, seed: str) -> Trace:
    """L1: all at once, one after the other in a random order, lognormal durations scaled to the paper's total."""
    chance, count = Random(int(seed)), int(jobs)
    lengths = [chance.lognormvariate(0.0, 1.3) for _ in range(count)]
    scale = TOTAL_S * count / 100 / sum(lengths)
    models = [chance.choice(list(FIFTEEN)) for _ in range(count)]
    return Trace.of(
        (
            TraceJob(JobSpec(f"job-{i}", declared_steps=scale * length, model=model), 0.0, scale * length)
            for i, (length, model) in enumerate(zip(lengths, models, strict=True))
        ),
        "L1",
    )


WORKLOADS: Mapping[str, Callable[..., Trace]] = {
    "T1": tiresias,
    "G6": production,
    "A4": two_tenants,
    "X1": four,
    "X2": forty,
    "X3": ten_users,
    "L1": one_device,
}
