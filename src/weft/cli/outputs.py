"""The files a simulation is to leave behind."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from weft.core.errors import InputError
from weft.sim.output import STDOUT, check_writable, write_csv, write_json
from weft.sim.results import Results


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

    @property
    def uses_stdout(self) -> bool:
        return STDOUT in astuple(self)

    def write(self, results: Results, title: str) -> None:
        if self.json:
            write_json(results.runs, self.json)
        if self.csv:
            write_csv(results.runs, self.csv)
        if self.report:
            results.report(self.report, title)
