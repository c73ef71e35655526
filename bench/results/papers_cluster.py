"""The papers' cluster experiments: Tiresias T1, T2 and T4, Gandiva G6, AntMan A4."""

from __future__ import annotations

import published
import workloads
from tables import Outcomes, Scale, Section, percent, ratio, seconds, table
from task import Outcome, Task

# ---- T1, T2

T1_PAPER = {  # mean, median and p95 of queueing in seconds, as recalled from the paper
    "yarn-cs": (8146, 7464, 15327),
    "srtf": (593, 32, 3133),
    "tiresias-g": (1005, 39, 7933),
    "tiresias-l": (963, 13, 7755),
}
T1_HEAD = (
    "policy", "mean, s", "yarn-cs / it", "makespan: yarn-cs / it", "queueing mean, s", "median, s", "p95, s",
    "paper's queueing, s: mean / median / p95", "preemptions",
)  # fmt: skip


def tiresias_testbed(scale: Scale, seed: int) -> Section:
    workload = f"T1 {scale.of(480)} {seed}"
    tasks = {policy: Task(workload, "15x4", policy, seed=seed) for policy in (*T1_PAPER, "weft")}

    def text(outcomes: Outcomes) -> str:
        base, rows = outcomes[tasks["yarn-cs"]], []
        for policy, task in tasks.items():
            one, paper = outcomes[task], T1_PAPER.get(policy)
            rows.append(
                (
                    published.label(policy),
                    seconds(one["mean_jct_s"]),
                    ratio(base["mean_jct_s"] / one["mean_jct_s"]),
                    ratio(base["makespan_s"] / one["makespan_s"]),
                    *(seconds(one[key]) for key in ("mean_queue_s", "median_queue_s", "p95_queue_s")),
                    " / ".join(f"{value:,}" for value in paper) if paper else "–",
                    f"{one['preemptions']:,}",
                )
            )
        return f"{T1_TEXT}\n{table(T1_HEAD, rows)}"

    return Section("T1", "Tiresias T1 and T2: 480 jobs on 15x4", list(tasks.values()), text)


T1_TEXT = """The paper: mean completion time up to 5.5 times better than YARN-CS, makespan 1.2 times, close to SRTF.
Ours has the paper's four bins of size and length, but the jobs themselves were never published, nor how its
capacity queues were set up: ours have one tenant, so that YARN-CS is FIFO with consolidated gangs.
"""


# ---- T4

SIZES = ("40x8", "48x8", "56x8", "64x8", "72x8", "80x8", "96x8", "128x8")
T4_POLICIES = ("yarn-cs", "srtf", "tiresias-l", "tiresias-g")


def tiresias_trace(scale: Scale) -> Section:
    workload = f"published philly first {scale.jobs}"
    tasks = {(size, policy): Task(workload, size, policy) for size in SIZES for policy in T4_POLICIES}
    sliced = Task(workload, published.CLUSTERS["philly"], "gandiva")
    if not workloads.path_of("philly").is_file():
        return Section("T4", T4_TITLE, (), lambda outcomes: "Needs Philly's file, which is not there.\n")

    def text(outcomes: Outcomes) -> str:
        rows = []
        for size in SIZES:
            means = {policy: outcomes[tasks[size, policy]]["mean_jct_s"] for policy in T4_POLICIES}
            gandiva = outcomes[sliced]["mean_jct_s"] if size == sliced.cluster else None
            best = min(means["tiresias-l"], means["tiresias-g"])
            rows.append(
                (
                    size,
                    percent(outcomes[tasks[size, "yarn-cs"]]["utilisation"]),
                    seconds(means["yarn-cs"]),
                    *(ratio(means["yarn-cs"] / means[policy]) for policy in T4_POLICIES[1:]),
                    ratio(gandiva and gandiva / best),
                )
            )
        return f"{T4_TEXT}\n{table(T4_HEAD, rows)}"

    return Section("T4", T4_TITLE, [*tasks.values(), sliced], text)


T4_TITLE = "Tiresias T4: Philly by size of the cluster"
T4_HEAD = (
    "cluster", "devices held by yarn-cs", "yarn-cs mean, s", "yarn-cs / srtf †", "yarn-cs / tiresias-l",
    "yarn-cs / tiresias-g", "gandiva / best tiresias",
)  # fmt: skip
T4_TEXT = """The paper: tiresias 2.4 times better than YARN-CS on the mean, 2 times better than Gandiva, simulated for a
cluster of 2,000 GPUs. The published trace has the jobs of a part of that cluster, and nobody tells how loaded it was:
the ratio to yarn-cs goes down to 1 as devices are added, so several sizes are shown side by side. The authors'
simulator charges nothing for a preemption and its Gandiva never packs; ours charges 30 s, and packs.
"""


# ---- G6


def gandiva(scale: Scale, seed: int) -> Section:
    workload = f"G6 {scale.of(1000)} 1.5 180 {seed}"
    policies = ("fifo", "backfill", "yarn-cs", "gandiva", "weft")
    tasks = {policy: Task(workload, "45x4", policy, seed=seed) for policy in policies}

    def text(outcomes: Outcomes) -> str:
        base = outcomes[tasks["yarn-cs"]]
        rows = [_g6_row(policy, outcomes[task], base) for policy, task in tasks.items()]
        return f"{G6_TEXT}\n{table(G6_HEAD, rows)}"

    return Section("G6", "Gandiva G6: a production-like trace on 45x4", list(tasks.values()), text)


def _g6_row(policy: str, one: Outcome, base: Outcome) -> tuple[str, ...]:
    return (
        policy,
        f"{one['work_rate']:.1f}",
        ratio(one["work_rate"] / base["work_rate"]),
        seconds(one["mean_first_steps_s"]),
        ratio(base["mean_first_steps_s"] / one["mean_first_steps_s"]),
        seconds(one["mean_jct_s"]),
        f"{one['preemptions']:,}",
    )


G6_HEAD = (
    "policy", "devices' worth of work a second", "over yarn-cs", "first 100 steps, s", "yarn-cs / it", "mean, s",
    "preemptions",
)  # fmt: skip
G6_TEXT = """The paper: 26 % more throughput of the cluster and 4.5 times less time to the first 100 mini-batches than
without time-slicing and packing. Gangs, durations (cut at 4 hours) and arrivals here are like Philly's, at a load of
1.5. All is compared with yarn-cs, which keeps gangs together as gandiva does; fifo and backfill put them wherever there
is room, which costs spread gangs time. Throughput is all work, as it would take alone, over the makespan. What
packing gains depends on how busy jobs keep a device: here as Gavel measured its models (median 0.68), while the paper
does not tell its mix; and time-slicing gains the more, the longer the queue is that it does away with.
"""


# ---- A4

A4_POLICIES = ("yarn-cs", "gandiva", "antman", "weft")


def antman(scale: Scale, seed: int) -> Section:
    both, only = (f"A4 {scale.of(600)} 1.5 {who} {seed}" for who in ("both", "A"))
    tasks = {policy: Task(both, "16x4:V100", policy, seed=seed, quota=64) for policy in A4_POLICIES}
    alone = Task(only, "16x4:V100", "antman", seed=seed, quota=64)

    def text(outcomes: Outcomes) -> str:
        theirs = {policy: outcomes[task] for policy, task in tasks.items()}
        free_s = outcomes[alone]["classes"]["guaranteed"]["mean_jct_s"]
        rows = [_a4_row(policy, one, theirs["antman"], free_s) for policy, one in theirs.items()]
        return f"{A4_TEXT}\n{table(A4_HEAD, rows)}"

    return Section("A4", "AntMan A4: two tenants on 16x4 V100", [*tasks.values(), alone], text)


def _a4_row(policy: str, one: Outcome, antman: Outcome, free_s: float) -> tuple[str, ...]:
    sure, rest = one["classes"]["guaranteed"], one["classes"]["opportunistic"]
    paper = {"yarn-cs": "2.05, 1.76", "gandiva": "1.84, 1.67"}.get(policy, "–")
    return (
        policy,
        seconds(one["mean_jct_s"]),
        ratio(one["mean_jct_s"] / antman["mean_jct_s"]),
        ratio(one["makespan_s"] / antman["makespan_s"]),
        paper,
        seconds(sure["mean_jct_s"]),
        ratio(sure["mean_jct_s"] / free_s),
        seconds(rest["mean_jct_s"]),
    )


A4_HEAD = (
    "policy", "mean, s", "mean: it / antman", "makespan: it / antman", "the paper's two", "guaranteed mean, s",
    "over antman with A's jobs alone", "opportunistic mean, s",
)  # fmt: skip
A4_TEXT = """The paper: mean completion time 2.05 times better than YARN-CS and 1.84 times than Gandiva, makespan 1.76
and 1.67 times; guaranteed jobs as without the others. Here every other job is A's, guaranteed within a quota of all 64
devices, the others are B's and opportunistic; jobs are like Philly's, cut at 4 hours, at a load of 1.5. A guest gets
60 % of the time that its holder leaves idle, and Gavel's models leave little of it; at Alibaba 9 of 10 GPUs are less
than 80 % busy, so there is far more to gain there. Guaranteed jobs lose next to no speed beside guests, which is
what the simulated world assumes of a guest that is held back; what they lose to B is waiting for quota in bursts.
"""
