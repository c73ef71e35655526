"""All policies over the published traces, over the half of them that nobody tuned on, and over generated ones."""

from __future__ import annotations

from collections.abc import Iterable

import workloads
from tables import FULL, Goal, Outcomes, Scale, Section, days, goals, percent, ratio, seconds, spread, table
from task import Outcome, Task

from weft.sim.request import parse_cluster

CLAIRVOYANT = ("srtf", "srsf", "allox")
PLAIN = ("fifo", "backfill", "yarn-cs", "las", "tiresias-l", "tiresias-g", "fair")
SHARING = ("antman", "salus", "weft")
ALL = (*PLAIN, *CLAIRVOYANT, "gandiva", *SHARING)
SOME = ("backfill", "las", "tiresias-l", "srsf", "gandiva", "antman", "weft")
"""Elsewhere these: the best on the first halves, and who stands for the rest."""
IDEAL = ("backfill", "las", "tiresias-l", "srtf", "srsf", "weft")

CLUSTERS = {"philly": "64x8", "helios": "175x4", "pai": "64x8"}
HEAVIER = {"philly": "38x8", "helios": "105x4", "pai": "52x8"}
"""60 % of the devices; of PAI's 81 %, because its largest gang is 400."""
LOADS = ("0.9", "1.2")
AS_ALONE = 1.03

HEAD = (
    "policy", "mean, s", "median, s", "p99, s", "makespan, days", "devices held", "first 100 steps, s", "mean ρ",
    "preemptions",
)  # fmt: skip


def label(policy: str) -> str:
    return f"{policy.partition(':')[0]}{' †' if policy in CLAIRVOYANT else ''}"


def _row(policy: str, one: Outcome) -> tuple[str, ...]:
    return (
        label(policy),
        seconds(one["mean_jct_s"]),
        seconds(one["median_jct_s"]),
        seconds(one["p99_jct_s"]),
        days(one["makespan_s"]),
        percent(one["utilisation"]),
        seconds(one["mean_first_steps_s"]),
        ratio(one["mean_rho"]),
        f"{one['preemptions']:,}",
    )


def _table(tasks: Iterable[Task], outcomes: Outcomes) -> str:
    return table(HEAD, [_row(task.policy, outcomes[task]) for task in tasks])


def goals_default(tasks: Iterable[Task], outcomes: Outcomes) -> list[Goal]:
    by_policy = {task.policy: outcomes[task] for task in tasks}
    weft = by_policy["weft"]
    rivals = {policy: one for policy, one in by_policy.items() if policy not in (*CLAIRVOYANT, "weft")}
    best = min(rivals, key=lambda policy: rivals[policy]["mean_jct_s"])
    soonest = min(by_policy, key=lambda policy: by_policy[policy]["makespan_s"])
    return [
        Goal(
            f"mean completion time over the best that is not clairvoyant ({label(best)})",
            weft["mean_jct_s"] / rivals[best]["mean_jct_s"],
            1.0,
        ),
        Goal(f"makespan over the best ({label(soonest)})", weft["makespan_s"] / by_policy[soonest]["makespan_s"], 1.25),
    ]


def goals_ideal(tasks: Iterable[Task], outcomes: Outcomes) -> list[Goal]:
    by_policy = {task.policy: outcomes[task] for task in tasks}
    weft, srsf = by_policy["weft"], by_policy["srsf"]
    return [
        Goal("ideal world: mean over srsf", weft["mean_jct_s"] / srsf["mean_jct_s"], 1.2),
        Goal("ideal world: p99 over srsf", weft["p99_jct_s"] / srsf["p99_jct_s"], 1.5),
    ]


def _tasks(
    workload: str, cluster: str, policies: Iterable[str], world: str = "default", seed: int = 0
) -> tuple[Task, ...]:
    return tuple(Task(workload, cluster, policy, world, seed) for policy in policies)


def trace_section(name: str, scale: Scale) -> Section:
    """One published trace: at the size of the goals, in the ideal world, its other half, and on fewer devices."""
    cluster, heavier = CLUSTERS[name], HEAVIER[name]
    first, other = (f"published {name} {part} {scale.jobs}" for part in ("first", "second"))
    main = _tasks(first, cluster, ALL)
    ideal = _tasks(first, cluster, IDEAL, "ideal")
    half = _tasks(other, cluster, SOME)
    half_ideal = _tasks(other, cluster, ("srsf", "weft"), "ideal")
    heavy = _tasks(f"published {name} first {scale.jobs // 2}", heavier, ALL)
    drawn = [_tasks(first, cluster, SOME, seed=seed) for seed in scale.seeds]

    def text(outcomes: Outcomes) -> str:
        parts = [
            f"### First {scale.jobs:,} jobs on {cluster}, default world\n",
            goals([*goals_default(main, outcomes), *goals_ideal(ideal, outcomes)]),
            _table(main, outcomes),
            f"### The same with {len(drawn)} other seeds\n",
            spread([f"{goals(goals_default(each, outcomes))}\n{_table(each, outcomes)}" for each in drawn]),
            f"### The same in the ideal world\n\n{IDEAL_NOTE}\n",
            _table(ideal, outcomes),
            f"### The other half: {scale.jobs:,} jobs from the middle of the file on, on {cluster}\n",
            goals([*goals_default(half, outcomes), *goals_ideal(half_ideal, outcomes)]),
            _table(half, outcomes),
            f"### A heavier load: the first {scale.jobs // 2:,} jobs on {heavier}, without a goal\n",
            _table(heavy, outcomes),
        ]
        return "\n".join(parts)

    title = {"philly": "Philly", "helios": "Helios (Venus)", "pai": "PAI"}[name]
    if not workloads.path_of(name).is_file():
        absent = f"{workloads.path_of(name)} is not there, so nothing was simulated; TRACES=FOLDER says where it is.\n"
        return Section(name, title, (), lambda outcomes: absent)

    def wanted(outcomes: Outcomes) -> list[list[Goal]]:
        return [[*goals_default(each, outcomes), *goals_ideal(ideal, outcomes)] for each in drawn]

    tasks = (*main, *ideal, *half, *half_ideal, *heavy, *(task for each in drawn for task in each))
    return Section(name, title, tasks, text, wanted)


IDEAL_NOTE = "Nobody shares a device there, so those that do nothing else are left out."


def generated_section(scale: Scale, seed: int) -> Section:
    groups = []
    clusters = {like: _loaded(cluster, scale) for like, cluster in CLUSTERS.items()}
    for like, cluster in clusters.items():
        for load in LOADS:
            workload = f"generated {like} {load} {scale.generated_jobs} {parse_cluster(cluster).device_count} {seed}"
            ideal = _tasks(workload, cluster, ("srsf", "weft"), "ideal", seed)
            groups.append((like, load, _tasks(workload, cluster, SOME, seed=seed), ideal))

    def text(outcomes: Outcomes) -> str:
        parts = []
        for like, load, main, ideal in groups:
            parts.append(f"### Like {like}, load {load}: {scale.generated_jobs:,} jobs on {clusters[like]}\n")
            parts.append(goals([*goals_default(main, outcomes), *goals_ideal(ideal, outcomes)]))
            parts.append(_table(main, outcomes))
        return "\n".join(parts)

    tasks = [task for _, _, main, ideal in groups for task in (*main, *ideal)]
    return Section("generated", "Generated traces", tasks, text)


def _loaded(cluster: str, scale: Scale) -> str:
    """As much of the cluster as can be loaded: fewer jobs need fewer nodes."""
    nodes, per_node = map(int, cluster.split("x"))
    return f"{round(nodes * scale.generated_jobs / FULL.generated_jobs)}x{per_node}"


def guaranteed_section(scale: Scale) -> Section:
    """Two thirds guaranteed, with quotas that have room for all of them."""
    workload, cluster = f"classed philly {scale.jobs}", CLUSTERS["philly"]
    tasks = [
        Task(workload, cluster, policy, quota=parse_cluster(cluster).device_count) for policy in ("weft", "antman")
    ]
    if not workloads.path_of("philly").is_file():
        return Section(
            "guaranteed", GUARANTEED_TITLE, (), lambda outcomes: "Needs Philly's file, which is not there.\n"
        )

    def text(outcomes: Outcomes) -> str:
        rows, wanted = [], []
        for task in tasks:
            by_class = outcomes[task]["classes"]
            sure, rest = by_class["guaranteed"], by_class["opportunistic"]
            wanted.append(Goal(f"{task.policy}: {WHAT_SLOWDOWN}", sure["slowdown"], AS_ALONE))
            rows.append(
                (
                    task.policy,
                    *(f"{sure[key]:.3f}" for key in ("slowdown", "median_slowdown", "total_slowdown")),
                    f"{sure['preemptions']:,}",
                    *(seconds(value) for value in (sure["mean_jct_s"], sure["mean_queue_s"], rest["mean_jct_s"])),
                )
            )
        return f"{GUARANTEED_TEXT}\n{goals(wanted)}\n{table(GUARANTEED_HEAD, rows)}"

    return Section("guaranteed", GUARANTEED_TITLE, tasks, text)


GUARANTEED_TITLE = "Guaranteed jobs (Philly, two thirds guaranteed, the rest opportunistic, by job id)"
GUARANTEED_TEXT = """That a guest which is held back costs its holder a hundredth is an assumption of the simulated
world; what is shown is that nobody else computes beside a guaranteed job. The README has what real jobs
showed.
"""
WHAT_SLOWDOWN = "guaranteed jobs' time on devices over time alone, mean"
GUARANTEED_HEAD = (
    "policy", "time on devices / alone: mean", "median", "by device-time", "preemptions", "guaranteed mean, s",
    "of it queueing, s", "opportunistic mean, s",
)  # fmt: skip
