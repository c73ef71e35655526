"""Packing while the machine's load changes: busy loops beside the jobs end as soon as the two are put together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import weft
from figures import Figure
from live import weft_here
from pair import wait_until

LOOPS = 3
SUM = re.compile(r"([+-]\d+)% ± \d+%, kept|([\d.]+)× ± [\d.]+$")
MOST = 2.1


@contextmanager
def busy(core: str) -> Iterator[Callable[[], None]]:
    """Loops on one core, and what ends them before this does."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(LOOPS)]
    for loop in loops:
        os.sched_setaffinity(loop.pid, {int(core)})

    def end() -> None:
        for loop in loops:
            loop.kill()
            loop.wait()

    try:
        yield end
    finally:
        end()


def packing_under_load(train: Callable[[weft.Client], str]) -> list[Figure]:
    """Two pairs at once, each on a core of its own; both were measured alone under a load that then goes away."""
    with ThreadPoolExecutor() as both:
        said = [words for found in both.map(lambda core: _verdict(train, core), ("0", "1")) for words in found]
    sums = [_sum(match) for words in said if (match := SUM.search(words))]
    most = max(sums, default=0.0)
    return [
        Figure(
            "G2: load ends while two pairs are packed: largest sum in a verdict",
            f"{most:.2f}×",
            "≤ 2.1×",
            most <= MOST,
        ),
        *(Figure("    what weft says of it", words) for words in dict.fromkeys(said)),
    ]


def _sum(match: re.Match[str]) -> float:
    return 1 + int(match[1]) / 100 if match[1] else float(match[2])


def _verdict(train: Callable[[weft.Client], str], core: str) -> list[str]:
    """What was said of the pair up to its first verdict."""
    with weft_here("cpu=1", "gandiva", core) as client, busy(core) as end_load:
        ids = [train(client) for _ in range(2)]
        wait_until(lambda: any("to be measured" in each for each in _said(client, ids)), "they are packed", 240)
        end_load()
        wait_until(lambda: any("kept" in each or "undone" in each for each in _said(client, ids)), "a verdict", 240)
        return [each for each in _said(client, ids) if "packed with" in each and "to be measured" not in each]


def _said(client: weft.Client, ids: list[str]) -> list[str]:
    return [str(event["text"]) for job_id in ids for event in client.events(job_id)]
