"""`make bench-live`: sharing devices with real PyTorch jobs under the daemon.

Ratios within one run, ABAB. `python bench/live_sharing.py G1 A3` is for these alone; `duty` runs only when named.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import weft
from figures import SHOWN, Figure, show, write
from inference import inference
from live import weft_here
from live_policies import policies_compared, startups
from opportunistic import PARTS as OPPORTUNISTIC
from opportunistic import by_duty_alone
from packing_under_load import packing_under_load
from pair import task_of, wait_until
from weft.node.devices.cpu import cpu_times_s
from weft.node.task.handle import Task
from weft.runtime.allocator import library_path

JOB = str(Path(__file__).with_name("share_job.py"))
FOREVER = 1_000_000
INPUT_BOUND = ("384", "12")
"""A width and milliseconds of waiting: about a third of a step is computed."""
COMPUTE_BOUND = ("768", "0")
WARM_UP_S = 0.5
Made = list[tuple[float, float]]
"""Of each job: seconds computed, and steps, a second."""


def train(client: weft.Client, steps: int, shape: Sequence[str], **options: object) -> str:
    return client.submit([sys.executable, JOB, str(steps), *shape], **options)


def steps(client: weft.Client, ids: Sequence[str]) -> list[int]:
    return [client.status(job_id)["steps"] or 0 for job_id in ids]


def rates(client: weft.Client, ids: Sequence[str], seconds: float) -> list[float]:
    """Steps a second of each over a while; all of them have made some."""
    tasks = [task_of(client, job_id) for job_id in ids]
    before, begun_s = [task.step for task in tasks], time.monotonic()
    time.sleep(seconds)
    after, passed_s = [task.step for task in tasks], time.monotonic() - begun_s
    return [(b - a) / passed_s for a, b in zip(before, after, strict=True)]


def decisions(client: weft.Client, job_id: str) -> str:
    return "; ".join(str(event["text"]) for event in client.events(job_id))


# ---- G1


def time_slicing(quantum_s: float = 3.0, rounds: int = 2, times: int = 2) -> list[Figure]:
    """Six jobs on two devices in turns, over whole rounds, and two of them while the others are held, now the one and
    now the other: the machine's speed drifts. Nobody is packed, which would be another benchmark."""
    alone, shared = [], []
    with weft_here("cpu=2", f"gandiva:quantum_s={quantum_s}:quantum_steps=1000000") as client:
        ids = [train(client, FOREVER, COMPUTE_BOUND, share=False) for _ in range(6)]
        wait_until(lambda: min(steps(client, ids)) > 20, "six jobs make steps", 120)
        tasks = [task_of(client, job_id) for job_id in ids]
        for _ in range(times):
            alone.append(_two_alone(client, tasks, quantum_s))
            _wait_for_turns(tasks[0], 1)
            shared.append(made(tasks, lambda: _wait_for_turns(tasks[0], rounds)))
        alone.append(_two_alone(client, tasks, quantum_s))
        newcomer, begun_s = train(client, FOREVER, COMPUTE_BOUND), time.monotonic()
        wait_until(lambda: steps(client, [newcomer])[0] > 0, "the newcomer makes a step")
        first_s = time.monotonic() - begun_s
    in_time, in_steps = (_over_alone(shared, alone, at) for at in (0, 1))
    worst = max(abs(one_s / total(many)[0] * len(ids) - 1) for many in shared for one_s, _ in many)
    floor = max(abs(total(one)[1] / total(two)[1] - 1) for one, two in pairwise(alone))
    return [
        Figure(
            "G1: 6 jobs on 2 devices: largest difference to an equal share",
            f"{worst:.1%}",
            "≤ 5 %",
            worst <= 0.05,
            key="equal-shares",
        ),
        Figure("G1: all together over two alone, in steps", f"{in_steps:.3f}", "≥ 0.97", in_steps >= 0.97),
        Figure("    the same in time computed", f"{in_time:.3f}"),
        Figure("    noise floor: two alone against two alone, in steps, at most", f"{floor:.1%}"),
        Figure(
            "G1: submit → first step of a seventh, import of torch included", f"{first_s:.1f} s", "≤ 5 s", first_s <= 5
        ),
    ]


def _two_alone(client: weft.Client, tasks: Sequence[Task], quantum_s: float) -> Made:
    """While those that wait are held, for longer than a quantum: then nobody is owed anything for it."""
    waiting = [job["id"] for job in client.queue() if job["state"] != "RUNNING"]
    for job_id in waiting:
        client.hold(job_id)
    time.sleep(WARM_UP_S)
    alone = made(tasks, lambda: time.sleep(quantum_s + 1.0))
    for job_id in waiting:
        client.release(job_id)
    return alone


def _over_alone(shared: Sequence[Made], alone: Sequence[Made], at: int) -> float:
    """Each time in turns over the mean of those alone before and after it."""
    around = [statistics.mean((total(before)[at], total(after)[at])) for before, after in pairwise(alone)]
    return statistics.mean(total(one)[at] / usual for one, usual in zip(shared, around, strict=True))


def total(many: Made) -> tuple[float, float]:
    return sum(one_s for one_s, _ in many), sum(hz for _, hz in many)


def made(tasks: Sequence[Task], wait: Callable[[], object]) -> Made:
    before, begun_s = _done(tasks), time.monotonic()
    wait()
    after, passed_s = _done(tasks), time.monotonic() - begun_s
    return [((b[0] - a[0]) / passed_s, (b[1] - a[1]) / passed_s) for a, b in zip(before, after, strict=True)]


def _done(tasks: Sequence[Task]) -> list[tuple[float, int]]:
    computed_s = cpu_times_s({at: task.roots for at, task in enumerate(tasks)})
    return [(computed_s[at], task.step) for at, task in enumerate(tasks)]


def _wait_for_turns(task: Task, turns: int) -> None:
    for _ in range(turns):
        wait_until(lambda: all(rank.is_paused for rank in task.ranks), "it is the turn of others")
        wait_until(lambda: not any(rank.is_paused for rank in task.ranks), "its turn begins")


# ---- G2


def packing() -> list[Figure]:
    """Two pairs at once, each on a core and under a weft of its own."""
    with ThreadPoolExecutor() as both:
        kept = both.submit(_packed, INPUT_BOUND, "kept", "0")
        undone = both.submit(_packed, COMPUTE_BOUND, "undone", "1")
        (kept_gain, kept_words), (_, undone_words) = kept.result(), undone.result()
    return [
        Figure(
            "G2: two input-bound jobs, packed over in turns",
            f"{kept_gain:.2f}×",
            "≥ 1.3×",
            kept_gain >= 1.3,
            key="packed",
        ),
        Figure("    what weft says of it", kept_words, "kept", "kept" in kept_words),
        Figure("G2: two compute-bound jobs", undone_words, "undone", "undone" in undone_words),
    ]


def _packed(shape: Sequence[str], outcome: str, core: str) -> tuple[float, str]:
    """Both together over one alone, before as weft measured it and after, and the words."""
    with weft_here("cpu=1", "gandiva", core) as client:
        ids = [train(client, FOREVER, shape) for _ in range(2)]
        wait_until(
            lambda: outcome in decisions(client, ids[0]) + decisions(client, ids[1]), f"packing is {outcome}", 300
        )
        said = [words for job_id in ids for words in decisions(client, job_id).split("; ") if outcome in words]
        before = statistics.mean(_measured_alone_hz(client, job_id) for job_id in ids)
        together = sum(rates(client, ids, 8.0))
        after = _holder_alone_hz(client) if outcome == "kept" else before
    return together / statistics.mean((before, after)), said[0]


def _measured_alone_hz(client: weft.Client, job_id: str) -> float:
    said = [event["text"] for event in client.events(job_id) if event["what"] == "Measured"]
    return statistics.median(float(text.split()[1]) for text in said if text.endswith("alone"))


def _holder_alone_hz(client: weft.Client) -> float:
    """With its guest out of the way."""
    holder, guest = sorted(client.queue(), key=lambda job: bool(job["guest"]))
    client.hold(guest["id"])
    wait_until(lambda: not client.status(holder["id"])["beside"], "the guest stands aside")
    return rates(client, [holder["id"]], 4.0)[0]


# ---- L1, L3


def lanes(count: int = 6, each: int = 250) -> list[Figure]:
    """Many small jobs of known memory on one device: in lanes, and one at a time, half of them before, half after."""
    before = _ends_s("fifo", count // 2, each)
    in_lanes = _ends_s("salus", count, each)
    after = _ends_s("fifo", count - len(before), each)
    one_at_a_time = [*before, *(before[-1] + end_s for end_s in after)]
    makespan, mean = (of(one_at_a_time) / of(in_lanes) for of in (max, statistics.mean))
    floor = abs(before[-1] / len(before) / (after[-1] / len(after)) - 1)
    return [
        Figure(f"L1/L3: {count} small jobs, one at a time over in lanes: makespan", f"{makespan:.2f}×"),
        Figure("    mean completion time", f"{mean:.2f}×"),
        Figure("    noise floor: one at a time, before over after", f"{floor:.1%}"),
    ]


def _ends_s(policy: str, count: int, each: int) -> list[float]:
    """How long after the first came each has ended, in that order."""
    with weft_here("cpu=1", policy, cores="0") as client:
        jobs = [
            client.wait(job_id) for job_id in [train(client, each, INPUT_BOUND, gpu_mem="64M") for _ in range(count)]
        ]
    assert all(job["state"] == "SUCCEEDED" for job in jobs)
    first, *_ = sorted(datetime.fromisoformat(job["submitted_at"]) for job in jobs)
    return sorted((datetime.fromisoformat(job["finished_at"]) - first).total_seconds() for job in jobs)


TITLES = {
    "G1": "time-slicing",
    "G2": "packing, kept and undone",
    "G2 load": "packing while the load of the machine changes",
    "A3": "a guest beside a guaranteed job",
    "A3 without the idle class": "a guest held back by the weight of its group",
    "A1": "a burst of memory",
    "L1": "small jobs in lanes",
    "L4": "inference models in one lane",
    "startup": "long imports",
    "policies": "the default policy beside the others, eight jobs on one device",
    "duty": "a guest held back by its duty alone",
}
PARTS: dict[str, Callable[[], list[Figure]]] = {
    "G1": time_slicing,
    "G2": packing,
    "G2 load": lambda: packing_under_load(lambda client: train(client, FOREVER, INPUT_BOUND)),
    **OPPORTUNISTIC,
    "L1": lanes,
    "L4": inference,
    "startup": startups,
    "policies": policies_compared,
}
BY_NAME = {"duty": by_duty_alone}


def main() -> int:
    if library_path() is None:
        print("No native library (weft doctor says why): nothing was measured.")
        return 0
    wanted, begun_s = set(sys.argv[1:]), time.monotonic()
    named = {name: part for name, part in {**PARTS, **BY_NAME}.items() if name.split()[0] in wanted}
    met = [_told(name, part) for name, part in (named if wanted else PARTS).items()]
    took_s = time.monotonic() - begun_s
    if not wanted:
        met.append(show("In all", [Figure("all of this", f"{took_s:.0f} s", "< 900 s", took_s < 900)]))
    print(f"\nwrote {write('make bench-live', SHOWN)}; make figures puts it into docs/performance.md and the README")
    print("\nAll goals met." if all(met) else "\nSome goals were missed: see above.")
    return 0


def _told(name: str, part: Callable[[], list[Figure]]) -> bool:
    begun_s, load = time.monotonic(), os.getloadavg()[0]
    figures = part()
    return show(f"{name}: {TITLES[name]}", figures, f"{time.monotonic() - begun_s:.0f} s, load before it {load:.1f}")


if __name__ == "__main__":
    sys.exit(main())
