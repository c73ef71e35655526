"""`make demo`: the same real PyTorch jobs, more of them than devices, under two policies, live on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import weft
from weft.sim.past_jobs import past_run
from weft.sim.results.report import write_report
from weft.sim.results.run_result import Floats, PolicyRun
from weft.sim.results.summary import completion_s, queueing_s, summarise

TRAIN = Path(__file__).with_name("train.py")
REPORT = Path("out/demo.html")
POLICIES = ("fifo", "tiresias-l:thresholds=6")
LONG, SHORT = 1600, 60
JOBS = [(0.0, "long", LONG)] * 3 + [(4.0 + 1.5 * i, "short", SHORT) for i in range(7)]
"""When it is submitted, what it is called, how many steps it trains. The long ones would keep both devices."""


def main() -> int:
    begun_s = time.monotonic()
    runs = []
    for policy in POLICIES:
        with weft_here(policy) as client:
            print(f"{policy}: {len(JOBS)} jobs on 2 devices …", file=sys.stderr, flush=True)
            runs.append(live(client, policy))
    print(side_by_side(runs))
    REPORT.parent.mkdir(exist_ok=True)
    write_report(runs, REPORT, "weft, live: the same jobs under two policies")
    print(f"\nwrote {REPORT}; {time.monotonic() - begun_s:.0f} s in all", file=sys.stderr)
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


def live(client: weft.Client, policy: str) -> PolicyRun:
    """Submit each job when its time has come, wait for them all, and keep what happened."""
    begun_s = time.monotonic()
    ids = []
    for at_s, name, steps in JOBS:
        time.sleep(max(0.0, begun_s + at_s - time.monotonic()))
        ids.append(client.submit([sys.executable, str(TRAIN), str(steps)], name=name))
    jobs = [client.wait(job_id) for job_id in ids]
    for job in jobs:
        if job["state"] != "SUCCEEDED":
            raise SystemExit(f"job {job['id']} has {job['state'].lower()}: {job['reason']}")
    return past_run(policy, jobs, {job_id: client.events(job_id) for job_id in ids}, client.nodes())


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
