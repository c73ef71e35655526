"""The workload files of the Tiresias simulator."""

from weft.sim.trace.batch import Batch
from weft.sim.trace.cells import Cells
from weft.sim.trace.forms.sheet import Sheet


def _batch(cells: Cells) -> Batch:
    return Batch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("submit_time"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("num_gpu"),
        models=cells.texts("model_name"),
    )


SAMPLE = Sheet(("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration"), _batch)
