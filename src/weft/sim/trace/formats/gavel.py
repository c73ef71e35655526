"""Gavel's traces: a line a job, tab separated, without a header.

They count a job's work in steps and say nothing of how long a step takes: Gavel looks that up in a table of measured
steps per second. So a step is a second here, as everywhere in weft where no rate is known: `duration_s` is the number
of steps, and a world that knows the rate of a job's model on a device type makes another time of it. The model is
Gavel's job type, "ResNet-18 (batch size 32)", word for word, because such tables are keyed by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from weft.core.errors import InputError
from weft.core.text import count_of
from weft.sim.trace.column_store import RowBatch
from weft.sim.trace.formats.csv_table import BATCH_ROWS, NumberedRow
from weft.sim.trace.schema import COUNT, Cells, number_or_nan
from weft.sim.trace.trace_file import TraceFile

FIELDS = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir",
    "total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time",
)  # fmt: skip
NUMBERS = ("total_steps", "scale_factor", "arrival_time")
LABELS = {name: f"field {number} ({name})" for number, name in enumerate(FIELDS, 1)}


class GavelTrace:
    needs = f"{len(FIELDS)} fields separated by tabs: {', '.join(FIELDS)}"

    def fits(self, first_line: str) -> bool:
        """There is no header to know it by, but there are numbers where they should be."""
        cells = _cells_of(first_line)
        if len(cells) != len(FIELDS):
            return False
        numbers = (number_or_nan(cells[FIELDS.index(name)]) for name in NUMBERS)
        return all(number == number for number in numbers)

    def batches(self, file: TraceFile) -> Iterator[RowBatch]:
        rows = _rows(file)
        while numbered := list(islice(rows, BATCH_ROWS)):
            lines, cells = zip(*numbered, strict=True)
            columns = dict(zip(FIELDS, zip(*cells, strict=True), strict=True))
            yield _batch(Cells(file, lines, columns, LABELS))


def _rows(file: TraceFile) -> Iterator[NumberedRow]:
    for number, line in enumerate(file.lines(), 1):
        if not line.strip():
            continue
        cells = _cells_of(line)
        if len(cells) != len(FIELDS):
            message = (
                f"{file.name}, line {number}: {count_of(len(cells), 'field')}, but a job of Gavel has {len(FIELDS)}"
            )
            raise InputError(message, f"Separated by tabs: {', '.join(FIELDS)}.")
        yield number, cells


def _cells_of(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _batch(cells: Cells) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        arrival_s=cells.times("arrival_time"),
        duration_s=cells.numbers("total_steps", COUNT),
        gang_size=cells.counts("scale_factor"),
        models=cells.texts("job_type"),
    )


TRACE = GavelTrace()
