"""Live, on one device or two: the default policy beside the others, and jobs that take long to their first step."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import weft
from figures import Figure
from live import weft_here
from weft.client import Job

JOB = str(Path(__file__).with_name("share_job.py"))
STEPS = (3000, 1500, 800, 400, 200, 100, 75, 50)
"""The longest comes first, which is the worst for who serves by arrival."""
SHAPE = ("768", "0")
"""About 10 ms a step on one core: the longest job computes for about half a minute, and imports for about 5 s."""
OTHERS = ("fifo", "tiresias-l", "gandiva", "salus")
ROUNDS = 3
IMPORT_S = 8.0


def policies_compared() -> list[Figure]:
    """Eight jobs of declared memory on one device. Policies are compared within one round, since the machine's speed
    drifts from one to the next, and each begins a round in turn."""
    names = (*OTHERS, "weft")
    rounds = []
    for first in range(ROUNDS):
        rounds.append({name: _mean_s(name) for name in (*names[first:], *names[:first])})
    best = [min(OTHERS, key=seconds.__getitem__) for seconds in rounds]
    over = [seconds["weft"] / seconds[name] for seconds, name in zip(rounds, best, strict=True)]
    figures = [
        Figure(
            f"weft over the best other ({', '.join(dict.fromkeys(best))}), mean completion time, {ROUNDS} rounds",
            ", ".join(f"{each:.2f}" for each in over),
            "≤ 1 in each",
            max(over) <= 1.0,
            key="live-policies",
        )
    ]
    for at, seconds in enumerate(rounds, 1):
        figures.append(Figure(f"    round {at}", ", ".join(f"{name} {seconds[name]:.1f} s" for name in names)))
    return figures


def _mean_s(policy: str) -> float:
    """The mean completion time."""
    with weft_here("cpu=1", policy) as client:
        ids = [_train(client, steps, gpu_mem="64M") for steps in STEPS]
        jobs = [client.wait(job_id) for job_id in ids]
    assert all(job["state"] == "SUCCEEDED" for job in jobs)
    first = min(_time(job, "submitted_at") for job in jobs)
    return statistics.mean((_time(job, "finished_at") - first).total_seconds() for job in jobs)


def startups(count: int = 8) -> list[Figure]:
    """Jobs that import for eight seconds each, four times as many as devices, under the default policy."""
    with weft_here("cpu=2", "weft") as client:
        ids = [_train(client, 300, IMPORT_S) for _ in range(count)]
        jobs = [client.wait(job_id) for job_id in ids]
        pauses = [_steps_at_pauses(client, job_id) for job_id in ids]
    assert all(job["state"] == "SUCCEEDED" for job in jobs)
    cut_short = sum(step == 0 for steps in pauses for step in steps)
    return [
        Figure(
            f"{count} jobs with {IMPORT_S:g} s of imports on 2 devices: paused before a first step",
            f"{cut_short}",
            "0",
            cut_short == 0,
            key="cut-short",
        ),
        Figure("    paused later", f"{sum(map(len, pauses)) - cut_short}"),
    ]


def _train(client: weft.Client, steps: int, import_s: float = 0.0, **options: object) -> str:
    return client.submit([sys.executable, JOB, str(steps), *SHAPE, str(import_s)], **options)


def _steps_at_pauses(client: weft.Client, job_id: str) -> Sequence[int]:
    return [one["step"] for one in client.why(job_id)["preemptions"] if one.get("step") is not None]


def _time(job: Job, name: str) -> datetime:
    return datetime.fromisoformat(job[name])
