"""What `weft simulate` prints and writes: notes while it runs, the table at the end, and the files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

import click
from rich.console import Console
from rich.text import Text

from weft.core.errors import InputError
from weft.core.text import count_of
from weft.sim.api import Results
from weft.sim.request import Misfit, ProgressListener
from weft.sim.results.result_files import STDOUT, check_writable, write_csv, write_json
from weft.sim.results.text_table import render_table
from weft.sim.trace import Trace

MOST_IDS = 8
"""Of jobs that are skipped for one reason, so many are named."""
PAGE_SUFFIXES = ("", ".html", ".htm")


class SimulationNotes(ProgressListener):
    """One line about rows that are left out, one about columns that are, one a reason to skip jobs; no bars."""

    def skipped(self, misfits: Sequence[Misfit], jobs: int) -> None:
        by_reason: dict[str, list[str]] = {}
        for misfit in misfits:
            by_reason.setdefault(misfit.why, []).append(misfit.id)
        for why, ids in by_reason.items():
            named = ", ".join(ids[:MOST_IDS]) + (f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else "")
            if len(ids) == 1:
                click.echo(f"note: job {named} is skipped: it {why}", err=True)
            else:
                click.echo(f"note: {len(ids):,} jobs are skipped ({named}): each {why}", err=True)
        if misfits:
            click.echo(
                f"note: every policy gets the other {jobs - len(misfits):,} of {count_of(jobs, 'job')}", err=True
            )

    def begins(self, trace: Trace, policies: Sequence[str]) -> None:
        if trace.left_out:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in trace.left_out.items())
            click.echo(f"note: {count_of(sum(trace.left_out.values()), 'row')} left out ({reasons})", err=True)
        if trace.ignored_columns:
            click.echo(f"note: columns ignored: {', '.join(trace.ignored_columns)}", err=True)

    def __enter__(self) -> SimulationNotes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def simulation_notes() -> SimulationNotes:
    """With progress bars where stderr is a terminal."""
    if not sys.stderr.isatty():
        return SimulationNotes()
    from weft.cli.render.progress_bars import ProgressBars

    return ProgressBars()


def print_results(results: Results, *, to_stderr: bool) -> None:
    console = Console(stderr=to_stderr)
    first = results[0]
    jobs, devices = count_of(len(first.jobs.ids), "job"), count_of(first.device_count, "device")
    world = first.parameters["world.name"]
    console.print(
        Text(f"{first.trace}: {jobs} on {first.cluster} ({devices}), world {world}, seed {first.seed}"), end="\n\n"
    )
    render_table(results.runs, console)


@dataclass(frozen=True)
class OutputFiles:
    json: str | None
    csv: str | None
    report: str | None

    def check(self) -> None:
        """Before any long work."""
        named = [path for path in astuple(self) if path]
        for path in named:
            if named.count(path) > 1:
                raise InputError(f"several outputs are to go to {path}", "give each of --json, --csv, --report its own")
            check_writable(path)
        if self.report and Path(self.report).suffix.lower() not in PAGE_SUFFIXES:
            hint = f"use .html, as in --report {Path(self.report).with_suffix('.html')}"
            raise InputError(f"the report is a page, and {self.report} does not end in .html", hint)

    @property
    def uses_stdout(self) -> bool:
        return STDOUT in astuple(self)

    def write(self, results: Results) -> None:
        """Files first: the reader of standard output may close it early."""
        for path, write in sorted(self._writers(results), key=lambda each: each[0] == STDOUT):
            write(path)
            if path != STDOUT:
                click.echo(f"wrote {path}", err=True)

    def _writers(self, results: Results) -> list[tuple[str, Callable[[str], None]]]:
        writers: list[tuple[str | None, Callable[[str], None]]] = [
            (self.json, lambda path: write_json(results.runs, path, results.skipped)),
            (self.csv, lambda path: write_csv(results.runs, path)),
            (self.report, results.report),
        ]
        return [(path, write) for path, write in writers if path]
