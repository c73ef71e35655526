"""What the native library costs and gives: under it against bare, turns, a lane, its memory, limits, swapping, duty."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import stepping
from figures import Figure
from weft.node.task.handle import attach
from weft.runtime.allocator import library_path

HERE = Path(__file__).parent
NATIVE = HERE.parent / "native"
EXEC = [sys.executable, "-m", "weft.cli.main", "exec"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
WIDTHS, STEPS, ROUNDS = (24, 32, 40), 120, 3
TURNSTILE = ("turnstile.c", "membership.c", "lane_page.c", "process.c", "guard.c", "tests/handover.c")
ANTMAN = "AntMan: 17 ms to shrink and 115 ms to grow a ResNet-50 (recorded)"


def overhead() -> list[Figure]:
    """Steps of about 5 ms: under weft with the library against bare, and against weft without the library."""
    apart = [stepping.rounds(("bare", "20"), ("weft", "20"), ("bare", "20")) for _ in range(ROUNDS)]
    beside = [stepping.rounds(("hooks", "20"), ("weft", "20"), ("hooks", "20")) for _ in range(ROUNDS)]
    return [
        *stepping.compared("hooks and library over bare, steps of 5 ms", apart, 1.005),
        *stepping.compared("hooks and library over hooks alone", beside, 1.005),
    ]


def handovers() -> list[Figure]:
    """From the release of a turn to the next member's running."""
    compiler = shutil.which(os.environ.get("CC", "gcc"))
    if compiler is None:
        return [Figure("hand-over of a turn", "not measured: no compiler")]
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        program = Path(folder) / "handover"
        names = ("turnstile.c", "membership.c", "lane_page.c", "process.c", "guard.c", "tests/handover.c")
        sources = [NATIVE / name for name in names]
        flags = ["-std=c11", "-O2", "-D_GNU_SOURCE", "-pthread", f"-I{NATIVE}"]
        subprocess.run([compiler, *flags, *map(str, sources), "-o", str(program)], check=True)
        first, *others = sorted(os.sched_getaffinity(0))
        other = others[0] if others else first
        same, across = ([_handover(program, first, to) for _ in range(ROUNDS)] for to in (first, other))
    same_us, same_p99_us = _medians(same)
    across_us, across_p99_us = _medians(across)
    return [
        Figure("hand-over of a turn, members on the same core", f"{same_us:.1f} us", "<= 20 us", same_us <= 20),
        Figure("    p99", f"{same_p99_us:.1f} us"),
        Figure("hand-over across cores", f"{across_us:.1f} us"),
        Figure("    p99", f"{across_p99_us:.1f} us"),
    ]


def _handover(program: Path, core: int, other: int) -> tuple[float, float]:
    """Median and 99th percentile in microseconds."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/dev/shm") as folder:
        command = [str(program), f"{folder}/lane", str(core), str(other), "20000"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    median_ns, p99_ns = done.stdout.split()[:2]
    return int(median_ns) / 1e3, int(p99_ns) / 1e3


def _medians(runs: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(median for median, _ in runs), statistics.median(p99 for _, p99 in runs)


def lanes() -> list[Figure]:
    """Three jobs on one core, in a lane and one after another, in turns. And what the lane holds."""
    ratios, memory, faster = [], [], []
    for _ in range(ROUNDS):
        alone = [_alone(width) for width in WIDTHS]
        bare = [_alone(width, under=()) for width in WIDTHS]
        shared, resumed = _together()
        alone_s = sum(run["ended"] - run["began"] for run in alone)
        bare_s = sum(run["ended"] - run["began"] for run in bare)
        ratios.append((max(run["ended"] for run in shared) - resumed) / alone_s)
        faster.append(alone_s / bare_s)
        wanted = sum(run["persistent"] for run in shared) + max(run["ephemeral"] for run in shared)
        held = sum(run["resident"] + run["lane_private"] for run in shared) + max(run["reserved"] for run in shared)
        memory.append((held / wanted, held, wanted))
    ratio, (waste, held, wanted) = statistics.median(ratios), sorted(memory)[len(memory) // 2]
    each = [f"{ratio:.3f}" for ratio in ratios]
    return [
        Figure("3 jobs in a lane over one after another", f"{ratio:.3f} ({', '.join(each)})", "<= 1.03", ratio <= 1.03),
        Figure("the same jobs one after another, under the library over bare", f"{statistics.median(faster):.3f}"),
        Figure("lane and P as mapped over sum of P + largest T", f"{waste:.3f}", "<= 1.1", waste <= 1.1),
        Figure("    bytes", f"{held / 1e6:.0f} / {wanted / 1e6:.0f} MB"),
    ]


def _member(width: int) -> list[str]:
    return [sys.executable, str(HERE / "lane_member.py"), str(width), str(STEPS)]


def _alone(width: int, under: tuple[str, ...] = (*EXEC, "--")) -> dict[str, Any]:
    command = [*under, *_member(width)]
    done = subprocess.run(command, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _together() -> tuple[list[dict[str, Any]], float]:
    """All go on from the fifth step at once; what each says at its end, and when that was."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-", dir="/dev/shm") as folder:
        lane, pages = Path(folder) / "lane", [Path(folder) / f"{width}.page" for width in WIDTHS]
        jobs = [
            subprocess.Popen(
                [*EXEC, "--page", str(page), "--lane", str(lane), "--lane-weight", "1", "--", *_member(width)],
                env=ENV,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for width, page in zip(WIDTHS, pages, strict=True)
        ]
        while not all(page.exists() for page in pages):
            pass
        tasks = [attach(page) for page in pages]
        for task in tasks:
            task.pause(at_step=5, grace_s=120)
        for task in tasks:
            task.resume()
        said = [json.loads(job.stdout.readline()) for job in jobs if job.stdout]
        for job in jobs:
            job.communicate()
        for task in tasks:
            task.close()
        return said, min(run["began"] for run in said)


def scaling() -> list[Figure]:
    """Limits, swapping, duty, seen from inside a process of PyTorch."""
    command = [*EXEC, "--", sys.executable, str(HERE / "scaling.py")]
    done = subprocess.run(command, env=ENV, capture_output=True, text=True, check=True)
    seen = {name: statistics.median(values) for name, values in json.loads(done.stdout.splitlines()[-1]).items()}
    return [
        Figure("shrink: caches given back, per 100 MB", f"{seen['shrink_caches']:.1f} ms", peers=ANTMAN),
        Figure("shrink below P: live memory to the next tier, per 100 MB", f"{seen['shrink_live']:.1f} ms"),
        Figure("grow: it comes back, per 100 MB", f"{seen['grow_back']:.1f} ms"),
        Figure("grow: fresh memory, allocated and written, per 100 MB", f"{seen['grow_fresh']:.1f} ms"),
        Figure("swap-out, on disk when it returns", f"{seen['swap_out_gb_s']:.2f} GB/s"),
        _freed(seen["swap_freed"]),
        Figure("swap-in", f"{seen['swap_in_gb_s']:.2f} GB/s"),
        *(_duty(wanted, seen[f"duty_{wanted}"]) for wanted in (50, 20)),
    ]


def _freed(share: float) -> Figure:
    return Figure("    the machine's available memory rises by, of P", f"{100 * share:.0f} %", ">= 90 %", share >= 0.9)


def _duty(wanted: int, seen: float) -> Figure:
    is_met = abs(seen - wanted) <= 2
    return Figure(f"duty {wanted} %: share of time computed", f"{seen:.1f} %", "within 2 points", is_met)


def is_there() -> bool:
    return library_path() is not None
