"""One simulation to be made, and the file that remembers what came of it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import workloads

ROOT = Path(__file__).parents[2]
REMEMBERED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft" / "results"
"""Outside the checkout: a run that was broken off goes on, also from another one with the same sources."""
SOURCES = ("src/weft/core", "src/weft/policies", "src/weft/sim")
MAKING_JOBS = ("workloads.py", "papers_jobs.py", "running.py")

Outcome = Mapping[str, Any]
"""What `running.run` says of a task: the columns of `weft simulate --json`, and some more."""


@dataclass(frozen=True)
class Task:
    workload: str
    cluster: str
    policy: str
    world: str = "default"
    seed: int = 0
    quota: int = 0
    """Of each tenant; 0: there are no quotas."""
    error: float = 0.0
    """Relative standard deviation of what the policy is told of run times."""
    is_profiled: bool = False
    """Whether the policy is told the memory of a job when it comes, as if it had run before."""

    def __str__(self) -> str:
        return f"{self.workload}, {self.cluster}, {self.world}, {self.policy}, seed {self.seed}"

    @property
    def file(self) -> Path:
        key = json.dumps([asdict(self), _digest(), _size(self.workload)], sort_keys=True)
        return REMEMBERED / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"


def remembered(task: Task) -> Outcome | None:
    try:
        outcome: Outcome = json.loads(task.file.read_text(encoding="utf-8"))["outcome"]
    except FileNotFoundError:
        return None
    return outcome


def remember(task: Task, outcome: Outcome) -> None:
    """Written whole or not at all: whoever is interrupted leaves no half file behind."""
    REMEMBERED.mkdir(parents=True, exist_ok=True)
    draft = task.file.with_suffix(".draft")
    draft.write_text(json.dumps({"task": asdict(task), "outcome": outcome}, indent=1), encoding="utf-8")
    draft.replace(task.file)


@cache
def _digest() -> str:
    """Of all code that a result depends on. Taken once: what is edited meanwhile belongs to the next run."""
    found = hashlib.sha256()
    here = [Path(__file__).parent / name for name in MAKING_JOBS]
    code = [path for folder in SOURCES for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".toml"}]
    for path in sorted([*code, *here]):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()


@cache
def _size(workload: str) -> int:
    """Of the file that the jobs come from, if any."""
    path = next((workloads.path_of(name) for name in workloads.FILES if name in workload.split()), None)
    return path.stat().st_size if path and path.is_file() and not workload.startswith("generated") else 0
