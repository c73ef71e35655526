"""`make demo`: the same real PyTorch jobs, more of them than devices, under two policies, live on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.sim.past_jobs import AFTER, HOLDS, IS_OVER, SITS, past_run
from weft.sim.results.report import write_report
from weft.sim.results.report.gantt import Bar, Chart, gantt_svg
from weft.sim.results.summary import Floats, PolicyRun, completion_s, queueing_s, summarise

TRAIN = Path(__file__).with_name("train.py")
REPORT = Path("out/demo.html")
PICTURE = Path("out/demo.svg")
POLICIES = {
    "fifo": "fifo: jobs start in the order in which they arrive, and run to their end",
    "weft": "weft: long jobs pause between two steps so that new jobs can start",
}
"""And what the picture says of each."""
LOOK_EVERY_S = 0.2
LONG, SHORT = 1600, 60
JOBS = [(0.0, "long", LONG)] * 3 + [(4.0 + 1.5 * i, "short", SHORT) for i in range(7)]
"""When it is submitted, what it is called, how many steps it trains. The long ones would keep both devices."""


def main() -> int:
    begun_s = time.monotonic()
    runs, charts = [], []
    for policy in POLICIES:
        with weft_here(policy) as client:
            print(f"{policy}: {len(JOBS)} jobs on 2 devices …", file=sys.stderr, flush=True)
            run, chart = live(client, policy)
            runs.append(run)
            charts.append(chart)
    print(side_by_side(runs))
    REPORT.parent.mkdir(exist_ok=True)
    write_report(runs, REPORT, "weft, live: the same jobs under two policies")
    PICTURE.write_text(gantt_svg(charts, "The same real PyTorch jobs on two devices, under two policies"), "utf-8")
    print(f"\nwrote {REPORT} and {PICTURE}; {time.monotonic() - begun_s:.0f} s in all", file=sys.stderr)
    return 0


@contextmanager
def weft_here(policy: str) -> Iterator[weft.Client]:
    """A weft of its own, in a folder that goes with it: no job, process or file is left behind."""
    with tempfile.TemporaryDirectory(prefix="weft-demo-") as folder:
        env = {**os.environ, "WEFT_HOME": folder}
        command = [sys.executable, "-m", "weft.cli.main"]
        subprocess.run([*command, "up", "--devices", "cpu=2", "--policy", policy], env=env, check=True)
        try:
            with weft.Client(folder) as client:
                yield client
        finally:
            subprocess.run([*command, "down", "--stop-jobs"], env=env, check=True)


def live(client: weft.Client, policy: str) -> tuple[PolicyRun, Chart]:
    """Submit each job when its time has come, wait for them all, and keep what happened."""
    begun_s = time.monotonic()
    ids = []
    with Watch(client.home) as watch:
        for at_s, name, steps in JOBS:
            time.sleep(max(0.0, begun_s + at_s - time.monotonic()))
            ids.append(client.submit([sys.executable, str(TRAIN), str(steps)], name=name))
        jobs = [client.wait(job_id) for job_id in ids]
    for job in jobs:
        if job["state"] != "SUCCEEDED":
            raise SystemExit(f"job {job['id']} has {job['state'].lower()}: {job['reason']}")
    events = {job_id: client.events(job_id) for job_id in ids}
    return past_run(policy, jobs, events, client.nodes()), watch.chart(policy, jobs, events)


class Watch:
    """Looks which jobs are on which devices, again and again: a job's history says when, and not where."""

    def __init__(self, home: Any) -> None:
        self._home = home
        self._seen: list[tuple[float, str, int]] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        with weft.Client(self._home) as client:
            while not self._is_over.wait(LOOK_EVERY_S):
                devices = [device for node in client.nodes() for device in node["devices"]]
                now_s = time.time()
                self._seen += [(now_s, job_id, at) for at, device in enumerate(devices) for job_id in device["jobs"]]

    def chart(self, policy: str, jobs: Sequence[dict[str, Any]], events: dict[str, list[dict[str, Any]]]) -> Chart:
        start_s = min(_time_s(job["submitted_at"]) for job in jobs)
        numbers: Counter[str] = Counter()
        bars = []
        for job in jobs:
            numbers[job["name"]] += 1
            name = f"{job['name']} {numbers[job['name']]}"
            story = [(_time_s(one["at"]), AFTER[one["what"]]) for one in events[job["id"]] if one["what"] in AFTER]
            at, has_run = 0, False
            for (from_s, doing), (to_s, _) in pairwise(story):
                if doing == IS_OVER or to_s <= from_s:
                    continue
                has_devices = doing in (HOLDS, SITS)
                at = self._device(job["id"], from_s, to_s, at)
                device = f"device {at}" if has_devices else None
                times = (from_s - start_s, to_s - start_s)
                bars.append(Bar(name, job["name"], *times, device, doing == SITS, has_run and not has_devices))
                has_run = has_run or has_devices
        return Chart(POLICIES[policy], ("device 0", "device 1"), bars)

    def _device(self, job_id: str, from_s: float, to_s: float, before: int) -> int:
        """On which it was seen between two times; where it was before if it was not seen."""
        seen = Counter(at for when_s, seen_id, at in self._seen if seen_id == job_id and from_s <= when_s < to_s)
        return seen.most_common(1)[0][0] if seen else before


def _time_s(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def side_by_side(runs: list[PolicyRun]) -> str:
    """A line a job: how long it waited in all, and how long after its submission it ended. Then what it comes to."""
    waits = [np.maximum(0.0, queueing_s(run.jobs)) for run in runs]
    ends = [completion_s(run.jobs) for run in runs]
    is_short = np.array([kind == "short" for _, kind, _ in JOBS])
    lines = [
        _line("", *(cell for run in runs for cell in ("", run.policy.partition(":")[0]))),
        _line("job", *("waits", "ends") * len(runs)),
    ]
    for at, (_, kind, _) in enumerate(JOBS):
        lines.append(_line(f"{at + 1:<3} {kind}", *_seconds(waits, ends, lambda column, at=at: column[at])))
    lines += [
        "",
        _line("mean", *_seconds(waits, ends, np.mean)),
        _line("mean of the short ones", *_seconds(waits, ends, lambda column: column[is_short].mean())),
        _line("makespan", *(cell for run in runs for cell in ("", f"{summarise(run).makespan_s:.1f} s"))),
        _line("preemptions", *(cell for run in runs for cell in ("", str(run.jobs.preemptions.sum())))),
    ]
    return "\n".join(lines)


def _seconds(waits: list[Floats], ends: list[Floats], of: Callable[[Floats], float]) -> list[str]:
    return [f"{of(column):.1f} s" for pair in zip(waits, ends, strict=True) for column in pair]


def _line(name: str, *cells: str) -> str:
    return (f"{name:<24}" + "".join(f"{cell:>12}" for cell in cells)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
