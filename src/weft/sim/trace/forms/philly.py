"""Microsoft Philly as a table derived from its log: one row a job that ran."""

from weft.sim.trace.batch import Batch
from weft.sim.trace.cells import Cells
from weft.sim.trace.forms.sheet import Sheet


def _batch(cells: Cells) -> Batch:
    return Batch(
        lines=cells.lines,
        arrival_s=cells.times("timestamp"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("num_gpus"),
        tenants=cells.texts("cluster", blank="default"),
    )


DERIVED = Sheet(("timestamp", "duration", "num_gpus", "cluster"), _batch)
