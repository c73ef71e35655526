"""Salus's L1: a hundred jobs on one device."""

from __future__ import annotations

from tables import Outcomes, Scale, Section, table
from task import Outcome, Task

PAPER = {  # makespan, mean queueing, mean and p95 completion time in minutes, as recalled from the paper
    "FIFO": (303.4, 167.6, 170.6, 251.1),
    "SRTF": (306.0, 28.6, 53.4, 217.0),
    "PACK": (287.4, 129.9, 145.5, 266.1),
    "FAIR": (301.6, 58.5, 96.6, 281.2),
}
LANES = (2, 4, 8)
"""Beside the default, one lane: what more of them do."""
KEYS = ("makespan_s", "first_wait_s", "mean_jct_s", "p95_jct_s")
HEAD = ("", *(f"{what}, min: ours (paper)" for what in ("makespan", "queueing", "mean", "p95")), "FIFO's mean / it")


def section(scale: Scale, seed: int) -> Section:
    workload = f"L1 {scale.of(100)} {seed}"
    tasks = {"FIFO": Task(workload, "1x1", "fifo", "salus", seed)}
    for in_lane in ("srtf", "pack", "fair"):
        policy = f"salus:in_lane={in_lane}"
        tasks[in_lane.upper()] = Task(workload, "1x1", policy, "salus", seed, is_profiled=True)
    for lanes in LANES:
        for in_lane in ("srtf", "fair"):
            policy = f"salus:in_lane={in_lane}:lanes={lanes}"
            tasks[f"{in_lane}, {lanes} lanes"] = Task(workload, "1x1", policy, "salus", seed, is_profiled=True)

    def text(outcomes: Outcomes) -> str:
        base = outcomes[tasks["FIFO"]]["mean_jct_s"]
        return f"{TEXT}\n{table(HEAD, [_row(name, outcomes[task], base) for name, task in tasks.items()])}"

    return Section("L1", "Salus L1: 100 jobs on one device of 16 GB", list(tasks.values()), text)


def _row(name: str, one: Outcome, base: float) -> tuple[str, ...]:
    paper = PAPER.get(name)
    ours = [one[key] / 60 for key in KEYS]
    told = [f" ({value:g})" for value in paper] if paper else [""] * len(KEYS)
    ratio = f"{base / one['mean_jct_s']:.2f}" + (f" ({PAPER['FIFO'][2] / paper[2]:.2f})" if paper else "")
    return name, *(f"{value:.1f}{text}" for value, text in zip(ours, told, strict=True)), ratio


TEXT = """Fifteen models whose memory is spread between the published peaks; all jobs come at once and need 303.4
minutes one after the other, the paper's FIFO makespan. Memory is known from the start, as Salus takes it from its
clients; queueing is the time until a job first computes. The makespan is shorter than in the paper, because
the models here leave idle what Gavel's do on a V100. With more lanes than one both the makespan and the mean are longer
here, so the default is one. `pack` gives turns to steps in the order they come, `fair` to who has had the least time:
the simulator knows no single steps, and sees no difference.
"""
