"""What a simulation hands back to a program: its runs, and every way to look at them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from weft.core.errors import InputError
from weft.sim.output import JOB_COLUMNS, as_json, job_rows, json_text
from weft.sim.report import write_report
from weft.sim.result import Run
from weft.sim.table import render_table

if TYPE_CHECKING:
    from pandas import DataFrame

TEXT_WIDTH = 80
NESTED = ("parameters", "bins")


@dataclass(frozen=True)
class Results:
    """The runs of one simulation, one a policy; printing it shows the tables."""

    runs: tuple[Run, ...]

    def __iter__(self) -> Iterator[Run]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, index: int) -> Run:
        return self.runs[index]

    def __str__(self) -> str:
        text = io.StringIO()
        render_table(self.runs, Console(file=text, width=TEXT_WIDTH, color_system=None))
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def to_json(self) -> str:
        return json_text(self.runs)

    def to_frame(self) -> DataFrame:
        """One row a policy, with every column of the JSON output that is a single value."""
        rows = as_json(self.runs)["runs"]
        return _pandas().DataFrame([{key: row[key] for key in row if key not in NESTED} for row in rows])

    def jobs_frame(self) -> DataFrame:
        """One row per job and policy, with the columns of the CSV output."""
        return _pandas().DataFrame(list(job_rows(self.runs)), columns=list(JOB_COLUMNS))

    def report(self, path: Path | str, title: str = "Simulated runs") -> None:
        write_report(self.runs, path, title)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise InputError("a data frame needs pandas, which is not installed", "pip install 'weft[frame]'") from error
    return pandas
