"""Tables: a CSV file with a header, cut into batches of rows whose cells a form then reads by column name."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NoReturn

from weft.core.errors import InputError
from weft.core.text import closest_name, count_of
from weft.sim.trace.column_store import RowBatch
from weft.sim.trace.schema import Cells
from weft.sim.trace.trace_file import TraceFile

BATCH_ROWS = 8192
NEAR = 0.8
"""How alike a slip of the pen is to what was meant; a looser bound would refuse columns that are meant."""

NumberedRow = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A layout of named columns. `duration.*` in `requires` stands for duration.V100 and the like."""

    requires: tuple[str, ...]
    batch_of: Callable[[Cells], RowBatch]
    synonyms: Mapping[str, str] = field(default_factory=dict)
    optional: tuple[str, ...] = ()
    """All other columns that mean something; if empty, those that do not are not reported."""

    @property
    def needs(self) -> str:
        return "columns " + ", ".join(self.requires)

    def fits(self, first_line: str) -> bool:
        names = self._names(next(csv.reader([first_line])))
        return all(_is_among(column, names) for column in self.requires)

    def batches(self, file: TraceFile) -> Iterator[RowBatch]:
        rows = _rows(file)
        line, header = next(rows)
        names = self._names(header)
        labels = _labels(f"{file.name}, line {line}", names, header)
        if self.optional:
            file.ignored_columns += self._ignored(f"{file.name}, line {line}", names, header)
        while numbered := list(islice(rows, BATCH_ROWS)):
            lines, cells = zip(*numbered, strict=True)
            if set(map(len, cells)) != {len(header)}:
                _refuse_width(file, numbered, len(header))
            columns = dict(zip(names, zip(*cells, strict=True), strict=True))
            yield self.batch_of(Cells(file, lines, columns, labels))

    def lacking(self, first_line: str) -> dict[str, str]:
        """The columns that a header lacks, each with the one that it nearly is, if any."""
        names = self._names(next(csv.reader([first_line])))
        return {column: closest_name(column, names, NEAR) for column in self.requires if not _is_among(column, names)}

    def _ignored(self, place: str, names: Sequence[str], header: Sequence[str]) -> list[str]:
        """The columns that mean nothing here, unless one is a slip of the pen."""
        absent = set(self.optional) - set(names)
        absent |= {name for name, meant in self.synonyms.items() if meant in absent}
        ignored = [(name, cell.strip()) for name, cell in zip(names, header, strict=True) if not self._has_use(name)]
        for name, cell in ignored:
            if near := closest_name(name, sorted(absent), NEAR):
                raise InputError(f"{place}: unknown column {cell}", f"did you mean {near}? if not, rename it")
        return [cell for _, cell in ignored if cell]

    def _has_use(self, name: str) -> bool:
        return any(_is_among(column, [name]) for column in (*self.requires, *self.optional))

    def _names(self, header: Sequence[str]) -> list[str]:
        """The names we know the columns by: without case, and a synonym as what it stands for."""
        written = [_normal(cell) for cell in header]
        return [name if (meant := self.synonyms.get(name, name)) in written else meant for name in written]


def _normal(cell: str) -> str:
    """Column names have no case, except for the device type after the dot."""
    name, dot, device_type = cell.strip().partition(".")
    return name.strip().lower() + dot + device_type.strip()


def _is_among(column: str, names: Sequence[str]) -> bool:
    if column.endswith(".*"):
        return any(name.startswith(column[:-1]) for name in names)
    return column in names


def _labels(place: str, names: Sequence[str], header: Sequence[str]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for name, cell in zip(names, header, strict=True):
        label = f"column {cell.strip()}"
        if name and name in labels:
            raise InputError(f"{place}: {labels[name]} and {label} both give the {name}", "Keep one of the two.")
        labels[name] = label
    return labels


def _rows(file: TraceFile) -> Iterator[NumberedRow]:
    """The rows that are not blank, each with the line it starts on."""
    reader = csv.reader(file.lines(), strict=True)
    line = 1
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        raise InputError(
            f"{file.name}, line {line}: not CSV ({error})", "Look for a quote that does not end."
        ) from None


def _refuse_width(file: TraceFile, rows: Iterable[NumberedRow], width: int) -> NoReturn:
    line, row = next((line, row) for line, row in rows if len(row) != width)
    hint = "Each line has one field a column; a field with a comma in it stands in quotes."
    raise InputError(f"{file.name}, line {line}: {count_of(len(row), 'field')}, but the header has {width}", hint)
