"""SenseTime Helios: a derived table of GPU jobs, and the table as published."""

from weft.sim.trace.batch import Batch
from weft.sim.trace.cells import Cells
from weft.sim.trace.forms.sheet import Sheet
from weft.sim.trace.rules import AMOUNT


def _derived_batch(cells: Cells) -> Batch:
    return Batch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("arrival_s"),
        duration_s=cells.seconds("service_sec"),
        gang_size=cells.counts("gpu_count"),
    )


def _own_batch(cells: Cells) -> Batch:
    cells = cells.without(cells.numbers("gpu_num", AMOUNT) == 0, "needs no GPU")
    return Batch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("submit_time"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("gpu_num"),
        # Quota belongs to the virtual cluster there; a user is one of the many people who share it.
        tenants=cells.texts("vc", blank="default"),
    )


DERIVED = Sheet(("job_id", "arrival_s", "service_sec", "gpu_count"), _derived_batch)
OWN = Sheet(("job_id", "vc", "gpu_num", "submit_time", "duration"), _own_batch)
