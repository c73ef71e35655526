"""AlloX's experiment: jobs that all arrive at once and run on a CPU node or on a GPU node."""

import numpy as np

from weft.sim.trace.batch import Batch
from weft.sim.trace.cells import Cells
from weft.sim.trace.forms.sheet import Sheet
from weft.sim.trace.rules import RUN_SECONDS


def _batch(cells: Cells) -> Batch:
    on_cpu_s = cells.numbers("cpu_s", RUN_SECONDS)
    count = len(cells.lines)
    return Batch(
        lines=cells.lines,
        ids=cells.ids("job"),
        arrival_s=np.zeros(count),
        duration_s=on_cpu_s,
        gang_size=np.ones(count, np.int64),
        tenants=cells.texts("user", blank="default"),
        device_types=[frozenset({"cpu", "gpu"})] * count,
        duration_by_type_s={"cpu": on_cpu_s, "gpu": cells.numbers("gpu_s", RUN_SECONDS)},
    )


EXPERIMENT = Sheet(("job", "user", "cpu_s", "gpu_s"), _batch)
