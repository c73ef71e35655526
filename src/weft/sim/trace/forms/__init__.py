"""The forms a trace file may have. Each is known by its header, or by what its first line holds where it has none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from weft.sim.trace.batch import Batch
from weft.sim.trace.file import TraceFile
from weft.sim.trace.forms import allox, gavel, helios, pai, philly, philly_json, plain, tiresias


class Layout(Protocol):
    """One way of writing jobs down; a form has one or more."""

    @property
    def needs(self) -> str:
        """What its files must have, in words for a hint."""
        ...

    def fits(self, first_line: str) -> bool: ...

    def batches(self, file: TraceFile) -> Iterator[Batch]:
        """All rows that are jobs, some thousand at a time; InputError for the first that cannot be read."""
        ...


FORMS: Mapping[str, tuple[Layout, ...]] = {
    "plain": (plain.PLAIN, plain.BY_TYPE),
    "philly": (philly.DERIVED,),
    "philly-json": (philly_json.LOG,),
    "helios": (helios.DERIVED, helios.OWN),
    # The derived table of PAI has the very columns of the one of Helios.
    "pai": (helios.DERIVED, pai.TASKS),
    "tiresias": (tiresias.SAMPLE,),
    "allox": (allox.EXPERIMENT,),
    "gavel": (gavel.TRACE,),
}
