"""What a simulation hands back to a program: its runs, and every way to look at them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from weft.core.errors import InputError
from weft.sim.output import JOB_COLUMNS, as_json, class_rows, job_rows, json_text
from weft.sim.report import write_report
from weft.sim.request import Misfit
from weft.sim.result import Run
from weft.sim.table import render_table

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_WIDTH = 80
NESTED = ("parameters", "bins", "classes")


@dataclass(frozen=True)
class Results:
    """The runs of one simulation, one a policy; printing it shows the tables."""

    runs: tuple[Run, ...]
    skipped: tuple[Misfit, ...] = ()
    """Jobs of the trace that could never run here and are in no run."""

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, which: int | str) -> Run:
        """By position, or by the text that asked for the policy; the first if it was asked for twice."""
        if not isinstance(which, str):
            return self.runs[which]
        for run in self.runs:
            if run.policy == which:
                return run
        raise KeyError(f"no run of {which}; the policies: {', '.join(run.policy for run in self.runs)}")

    def __str__(self) -> str:
        text = io.StringIO()
        render_table(self.runs, Console(file=text, width=TEXT_WIDTH, color_system=None))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def to_json(self) -> str:
        return json_text(self.runs, self.skipped)

    def to_frame(self) -> DataFrame:
        """One row a policy, with every column of the JSON output that is a single value."""
        rows = as_json(self.runs)["runs"]
        return _pandas().DataFrame([{key: row[key] for key in row if key not in NESTED} for row in rows])

    def classes_frame(self) -> DataFrame:
        """One row per policy and class that some job asked for, and one per policy for all jobs."""
        return _pandas().DataFrame(list(class_rows(self.runs)))

    def jobs_frame(self) -> DataFrame:
        """One row per job and policy, with the columns of the CSV output."""
        return _pandas().DataFrame(list(job_rows(self.runs)), columns=list(JOB_COLUMNS))

    def report(self, path: Path | str, title: str | None = None) -> None:
        first = self.runs[0]
        title = f"{first.trace} on {first.cluster}" if title is None else title
        write_report(self.runs, path, title, self.skipped)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError("a data frame needs pandas, which is not installed", "pip install 'weft[frame]'") from error
    return pandas
