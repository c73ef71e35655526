"""`make bench-live`: sharing devices with real PyTorch jobs under the daemon.

Ratios within one run, ABAB. `python bench/live_sharing.py G1 A3` is for these alone; `duty` runs only when named.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import weft
from figures import Figure, show
from inference import inference
from live import weft_here
from opportunistic import PARTS as OPPORTUNISTIC
from opportunistic import by_duty_alone
from pair import task_of, wait_until
from weft.node import usage
from weft.node.task import Task
from weft.runtime.native import library_path

JOB = str(Path(__file__).with_name("share_job.py"))
FOREVER = 1_000_000
INPUT_BOUND = ("384", "12")
"""A width and milliseconds of waiting: about a third of a step is computed."""
COMPUTE_BOUND = ("768", "0")


def train(client: weft.Client, steps: int, shape: Sequence[str], **options: object) -> str:
    return client.submit([sys.executable, JOB, "train", str(steps), *shape], **options)


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


def time_slicing(quantum_s: float = 3.0, rounds: int = 3) -> list[Figure]:
    """Six jobs on two devices in turns, over whole rounds, against two alone on them just before and just after.

    Time is what is shared, so it is time that is compared: how much of it each job computes. In steps, the speed of the
    machine, which drifts from minute to minute, counts as well.
    """
    before = _alone()
    with weft_here("cpu=2", f"gandiva:quantum_s={quantum_s}:quantum_steps=1000000:margin=9") as client:
        ids = [train(client, FOREVER, COMPUTE_BOUND) for _ in range(6)]
        wait_until(lambda: min(steps(client, ids)) > 20, "six jobs make steps", 120)
        tasks = [task_of(client, job_id) for job_id in ids]
        _wait_for_turns(tasks[0], 2)  # what loading cost each of them is evened out
        shared = made(tasks, lambda: _wait_for_turns(tasks[0], rounds))
        newcomer, begun_s = train(client, FOREVER, COMPUTE_BOUND), time.monotonic()
        wait_until(lambda: steps(client, [newcomer])[0] > 0, "the newcomer makes a step")
        first_s = time.monotonic() - begun_s
    alone = [*before, *_alone()]
    usual_s, usual_hz = (2 * statistics.mean(each[at] for each in alone) for at in (0, 1))
    together_s, together_hz = (sum(each[at] for each in shared) for at in (0, 1))
    worst = max(abs(one_s / together_s * len(ids) - 1) for one_s, _ in shared)
    floor = abs(sum(hz for _, hz in before) / sum(hz for _, hz in alone[2:]) - 1)
    return [
        Figure("G1: 6 jobs on 2 devices: largest difference to an equal share", f"{worst:.1%}", "≤ 5 %", worst <= 0.05),
        Figure(
            "G1: all together over two alone, in time computed",
            f"{together_s / usual_s:.3f}",
            "≥ 0.97",
            together_s / usual_s >= 0.97,
        ),
        Figure(f"    the same in steps (alone before over alone after: {floor:.1%})", f"{together_hz / usual_hz:.3f}"),
        Figure(
            "G1: submit → first step of a seventh, import of torch included", f"{first_s:.1f} s", "≤ 5 s", first_s <= 5
        ),
    ]


def made(tasks: Sequence[Task], wait: Callable[[], object]) -> list[tuple[float, float]]:
    """Seconds computed, and steps, of each, a second."""
    before, begun_s = _done(tasks), time.monotonic()
    wait()
    after, passed_s = _done(tasks), time.monotonic() - begun_s
    return [((b[0] - a[0]) / passed_s, (b[1] - a[1]) / passed_s) for a, b in zip(before, after, strict=True)]


def _done(tasks: Sequence[Task]) -> list[tuple[float, int]]:
    computed_s = usage.cpu_times_s({at: task.roots for at, task in enumerate(tasks)})
    return [(computed_s[at], task.step) for at, task in enumerate(tasks)]


def _wait_for_turns(task: Task, turns: int) -> None:
    for _ in range(turns):
        wait_until(lambda: all(rank.is_paused for rank in task.ranks), "it is the turn of others")
        wait_until(lambda: not any(rank.is_paused for rank in task.ranks), "its turn begins")


def _alone(seconds: float = 8.0) -> list[tuple[float, float]]:
    with weft_here("cpu=2", "fifo") as client:
        ids = [train(client, FOREVER, COMPUTE_BOUND) for _ in range(2)]
        wait_until(lambda: min(steps(client, ids)) > 20, "two jobs make steps")
        return made([task_of(client, job_id) for job_id in ids], lambda: time.sleep(seconds))


# ---- G2


def packing() -> list[Figure]:
    kept_gain, kept_words = _packed(INPUT_BOUND, "kept")
    _, undone_words = _packed(COMPUTE_BOUND, "undone")
    return [
        Figure("G2: two input-bound jobs, packed over in turns", f"{kept_gain:.2f}×", "≥ 1.3×", kept_gain >= 1.3),
        Figure("    what weft says of it", kept_words, "kept", "kept" in kept_words),
        Figure("G2: two compute-bound jobs", undone_words, "undone", "undone" in undone_words),
    ]


def _packed(shape: Sequence[str], outcome: str) -> tuple[float, str]:
    """Both together over the mean of each alone, and the words."""
    with weft_here("cpu=1", "gandiva", cores="0") as client:
        ids = [train(client, FOREVER, shape) for _ in range(2)]
        wait_until(
            lambda: outcome in decisions(client, ids[0]) + decisions(client, ids[1]), f"packing is {outcome}", 150
        )
        together = sum(rates(client, ids, 8.0)) if outcome == "kept" else 0.0
        said = [words for job_id in ids for words in decisions(client, job_id).split("; ") if outcome in words]
        alone = [_measured_alone_hz(client, job_id) for job_id in ids]
    return together / statistics.mean(alone), said[0]


def _measured_alone_hz(client: weft.Client, job_id: str) -> float:
    said = [event["text"] for event in client.events(job_id) if event["what"] == "Measured"]
    return statistics.median(float(text.split()[1]) for text in said if text.endswith("alone"))


# ---- L1, L3


def lanes(count: int = 6, each: int = 120) -> list[Figure]:
    """Many small jobs of known memory on one device: in lanes, against one at a time just before and just after."""
    before, in_lanes, after = (_makespan(policy, count, each) for policy in ("fifo", "salus", "fifo"))
    makespan, mean = (statistics.mean((before[at], after[at])) / in_lanes[at] for at in (0, 1))
    return [
        Figure(f"L1/L3: {count} small jobs, one at a time over in lanes: makespan", f"{makespan:.2f}×"),
        Figure("    mean completion time", f"{mean:.2f}×"),
        Figure("    noise floor: one at a time, before over after", f"{abs(before[0] / after[0] - 1):.1%}"),
    ]


def _makespan(policy: str, count: int, each: int) -> tuple[float, float]:
    """Until the last has ended, and until each has on average."""
    with weft_here("cpu=1", policy, cores="0") as client:
        begun_s = time.monotonic()
        ids = [train(client, each, INPUT_BOUND, gpu_mem="64M") for _ in range(count)]
        ends = []
        for job_id in ids:
            assert client.wait(job_id)["state"] == "SUCCEEDED"
            ends.append(time.monotonic() - begun_s)
        return ends[-1], statistics.mean(ends)


PARTS: dict[str, Callable[[], list[Figure]]] = {
    "G1": time_slicing,
    "G2": packing,
    **OPPORTUNISTIC,
    "L1": lanes,
    "L4": inference,
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
    print(f"\n{took_s:.0f} s in all. " + ("All goals met." if all(met) else "Some goals were missed: see above."))
    return 0


def _told(name: str, part: Callable[[], list[Figure]]) -> bool:
    begun_s, load = time.monotonic(), os.getloadavg()[0]
    figures = part()
    return show(f"{name}  ({time.monotonic() - begun_s:.0f} s, load before it {load:.1f})", figures)


if __name__ == "__main__":
    sys.exit(main())
