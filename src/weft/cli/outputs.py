"""The files a simulation is to leave behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path

import click

from weft.core.errors import InputError
from weft.sim.api import Results
from weft.sim.results.result_files import STDOUT, check_writable, write_csv, write_json

PAGE_SUFFIXES = ("", ".html", ".htm")


@dataclass(frozen=True)
class Outputs:
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
        """Files first: whoever reads standard output may go away in the middle of it."""
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
