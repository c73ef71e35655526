"""Alibaba PAI: the table of tasks as published, with a header line. One row is one job here."""

import numpy as np

from weft.sim.trace.batch import Batch
from weft.sim.trace.cells import Cells
from weft.sim.trace.column import Floats
from weft.sim.trace.forms.sheet import Sheet
from weft.sim.trace.rules import PERCENT


def _batch(cells: Cells) -> Batch:
    cells = cells.without(cells.numbers("plan_gpu", PERCENT, blank=0) == 0, "plans no GPU")
    cells = cells.without(cells.empty("start_time"), "never started")
    cells = cells.without(cells.empty("end_time"), "not finished")
    arrival_s = cells.times("start_time")
    # plan_gpu is a percentage of one GPU for each instance. A share counts as a whole one: the gang is what
    # the job holds when nothing is packed.
    gpus_per_instance = np.ceil(cells.numbers("plan_gpu", PERCENT) / 100).astype(np.int64)
    # gpu_type is where it happened to run, often a catch-all such as MISC, so it does not bind the job.
    return Batch(
        lines=cells.lines,
        ids=[f"{job}/{task}" for job, task in zip(cells.ids("job_name"), cells.texts("task_name"), strict=True)],
        arrival_s=arrival_s,
        duration_s=_duration_s(cells, arrival_s),
        gang_size=cells.counts("inst_num") * gpus_per_instance,
    )


def _duration_s(cells: Cells, start_s: Floats) -> Floats:
    duration_s = cells.times("end_time") - start_s
    if (duration_s < 0).any():
        cells.refuse(int((duration_s < 0).argmax()), "end_time", "a time at or after start_time")
    return duration_s


TASKS = Sheet(("job_name", "task_name", "inst_num", "start_time", "end_time", "plan_gpu"), _batch)
