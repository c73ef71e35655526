"""The forms a trace file may have. Each is known by its header, or by what its first line holds where it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from weft.sim.trace.column_store import RowBatch
from weft.sim.trace.formats import philly_log, published_tables, weft_csv
from weft.sim.trace.trace_file import TraceFile


class Layout(Protocol):
    """One way of writing jobs down; a form has one or more."""

    @property
    def needs(self) -> str:
        """What its files must have, in words for a hint."""
        ...

    def fits(self, first_line: str) -> bool: ...

    def batches(self, file: TraceFile) -> Iterator[RowBatch]:
        """All rows that are jobs, some thousand at a time; InputError for the first that cannot be read."""
        ...


FORMS: Mapping[str, tuple[Layout, ...]] = {
    "plain": (weft_csv.PLAIN, weft_csv.BY_TYPE),
    "philly": (published_tables.PHILLY,),
    "philly-json": (philly_log.LOG,),
    "helios": (published_tables.HELIOS_DERIVED, published_tables.HELIOS),
    # The derived table of PAI has the very columns of the one of Helios.
    "pai": (published_tables.HELIOS_DERIVED, published_tables.PAI),
    "tiresias": (published_tables.TIRESIAS,),
    "allox": (published_tables.ALLOX,),
    "gavel": (published_tables.GAVEL,),
}
