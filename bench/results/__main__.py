"""Writes docs/results.md: every table from simulations. `python bench/results [--section NAME] [--quick]`.

What has been simulated is remembered in a cache folder outside the checkout, by everything that it depends on, the
sources of core, policies and sim included: a second run, or one after an interruption, only makes what is missing. A
single section, and a quick run, is printed instead.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from statistics import median
from typing import Any

import page
import running

sys.path.insert(0, str(Path(__file__).parents[1]))
from tables import FULL, QUICK, Goal, Outcomes, Section, over_all
from task import Outcome, Task, remembered

import figures

PAGE = Path("docs/results.md")
README_KEYS = ("mean", "makespan", "ideal-mean", "ideal-p99")
"""Of a published trace's goals, by which the README takes them: as `philly-mean`."""
SLOW_FIRST = ("gandiva", "weft", "las", "allox", "fair", "salus")
"""What takes longest is begun first, so that no worker is left with it at the end."""


def simulate_all(tasks: Iterable[Task], workers: int) -> Outcomes:
    outcomes: dict[Task, Outcome] = {}
    missing = []
    for task in dict.fromkeys(tasks):
        known = remembered(task)
        if known is None:
            missing.append(task)
        else:
            outcomes[task] = known
    _say(f"{len(outcomes)} remembered, {len(missing)} to simulate")
    started_s = time.monotonic()
    context = multiprocessing.get_context("spawn")
    if not missing:
        return outcomes
    with ProcessPoolExecutor(workers, context) as pool:
        futures = [pool.submit(running.run, task) for task in sorted(missing, key=_slow_first)]
        for done, future in enumerate(as_completed(futures), 1):
            task, outcome = future.result()
            outcomes[task] = outcome
            _say(f"{time.monotonic() - started_s:6.0f} s  {done}/{len(missing)}  {task}: {outcome['cpu_s']:.1f} s")
    return outcomes


def for_readme(sections: Iterable[Section], outcomes: Outcomes) -> dict[str, list[dict[str, Any]]]:
    """The goals of the published traces, over all seeds."""

    def figure(section: Section, key: str, goals: Sequence[Goal]) -> figures.Figure:
        measured, limit = over_all([f"{goal.measured:.3f}" for goal in goals]), goals[0].limit
        is_met = median(goal.measured for goal in goals) <= limit
        return figures.Figure(goals[0].what, measured, f"≤ {limit:g}", is_met, key=f"{section.name}-{key}")

    groups = {}
    for section in sections:
        over_seeds = list(zip(*section.goals(outcomes), strict=True))
        if over_seeds:
            each = [figure(section, *named) for named in zip(README_KEYS, over_seeds, strict=True)]
            groups[section.title] = [figures.described(one) for one in each]
    return groups


def _slow_first(task: Task) -> int:
    name = task.policy.partition(":")[0]
    return SLOW_FIRST.index(name) if name in SLOW_FIRST else len(SLOW_FIRST)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python bench/results", description=__doc__)
    parser.add_argument("--section", action="append", metavar="NAME", choices=page.NAMES, help=", ".join(page.NAMES))
    parser.add_argument("--quick", action="store_true", help="few jobs: does it work at all?")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--output", type=Path, help="where to write; docs/results.md for a complete run")
    asked = parser.parse_args(words)
    scale = QUICK if asked.quick else FULL
    sections: list[Section] = [each for each in page.sections(scale) if each.name in (asked.section or page.NAMES)]
    outcomes = simulate_all((task for section in sections for task in section.tasks), asked.workers)
    text = page.text(sections, outcomes, scale)
    output = asked.output or (None if asked.section or asked.quick else PAGE)
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")
        _say(f"wrote {output}")
    if output == PAGE:
        digest = hashlib.sha256(output.read_bytes()).hexdigest()
        groups = for_readme(sections, outcomes)
        _say(f"wrote {figures.write('make results', groups, page=digest, decisions=figures.decisions())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
