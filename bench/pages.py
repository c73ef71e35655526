"""Writes docs/performance.md from the files in docs/figures, and puts their values into the pages: `make figures`.

A figure stands in README.md and docs/benchmarks.md between `<!--KEY-->` and `<!--/-->`; the key is the one that
the benchmark gives it. Where no command has written it for this code, the old text stays, and a ° behind it says so.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from figures import FOLDER, ROOT, decisions, read

README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
PERFORMANCE = ROOT / "docs" / "performance.md"
WITH_FIGURES = (README, BENCHMARKS)
MARKED = re.compile(r"<!--([a-z0-9-]+)-->(.*?)<!--/-->")
EARLIER = " °"
HEAD = """# All live figures

Every figure that `make bench` and `make bench-live` measured, written by `make figures` from [docs/figures](figures).
The machine has two cores and no GPU, and its speed drifts: a ratio compares what was measured side by side. Simulated
results are in [results.md](results.md).
"""


def current(folder: Path = FOLDER) -> dict[str, str]:
    """The figures that a command has written for this code, by key."""
    import weft

    values = {}
    for written in _written(folder):
        for group in written["groups"].values():
            if group["version"] == weft.__version__ and written.get("decisions", decisions()) == decisions():
                values.update({one["key"]: one["measured"] for one in group["figures"] if "key" in one})
    return values


def with_figures(text: str, values: Mapping[str, str]) -> str:
    def put(match: re.Match[str]) -> str:
        key, old = match.groups()
        new = values.get(key) or old.removesuffix(EARLIER) + EARLIER
        return f"<!--{key}-->{new}<!--/-->"

    return MARKED.sub(put, text)


def performance(folder: Path = FOLDER) -> str:
    parts = [HEAD]
    for written in _written(folder):
        if "page" in written:
            continue  # it has a page of its own
        parts.append(f"## `{written['command']}`\n")
        for title, group in written["groups"].items():
            parts.append(f"### {title}\n\nweft {group['version']}, commit {group['commit']}.\n")
            parts.append("\n".join(_table(group["figures"])) + "\n")
    return "\n".join(parts)


def _table(figures: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    yield "| figure | measured | goal | |"
    yield "|---|---|---|---|"
    for one in figures:
        verdict = {True: "met", False: "**missed**", None: ""}[one.get("is_met")]
        name = f"— {one['name'].strip()}" if one["name"].startswith("    ") else one["name"]
        remark = f"; {one['peers']}" if verdict and "peers" in one else one.get("peers", "")
        cells = (name, one.get("measured", ""), one.get("goal", ""), f"{verdict}{remark}")
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _written(folder: Path) -> Iterator[dict[str, Any]]:
    yield from map(read, sorted(folder.glob("*.json")))


def main() -> int:
    PERFORMANCE.write_text(performance(), encoding="utf-8")
    for page in WITH_FIGURES:
        page.write_text(with_figures(page.read_text(encoding="utf-8"), current()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
