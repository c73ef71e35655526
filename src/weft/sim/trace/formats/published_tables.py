"""The tables of published clusters: Philly, Helios, PAI, AlloX and Tiresias, each by the names of its columns."""

import numpy as np

from weft.sim.trace.column_store import Floats, RowBatch
from weft.sim.trace.formats.csv_table import Sheet
from weft.sim.trace.schema import AMOUNT, PERCENT, RUN_SECONDS, Cells


def _philly_batch(cells: Cells) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        arrival_s=cells.times("timestamp"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("num_gpus"),
        tenants=cells.texts("cluster", blank="default"),
    )


PHILLY = Sheet(("timestamp", "duration", "num_gpus", "cluster"), _philly_batch)


# ---- SenseTime Helios: a derived table of GPU jobs, and the table as published.


def _helios_derived_batch(cells: Cells) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("arrival_s"),
        duration_s=cells.seconds("service_sec"),
        gang_size=cells.counts("gpu_count"),
    )


def _helios_batch(cells: Cells) -> RowBatch:
    cells = cells.without(cells.numbers("gpu_num", AMOUNT) == 0, "needs no GPU")
    return RowBatch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("submit_time"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("gpu_num"),
        # Quota belongs to the virtual cluster there; a user is one of the many people sharing it.
        tenants=cells.texts("vc", blank="default"),
    )


HELIOS_DERIVED = Sheet(("job_id", "arrival_s", "service_sec", "gpu_count"), _helios_derived_batch)
HELIOS = Sheet(("job_id", "vc", "gpu_num", "submit_time", "duration"), _helios_batch)


# ---- Alibaba PAI: the table of tasks as published, with a header line. One row is one job here.


def _pai_batch(cells: Cells) -> RowBatch:
    cells = cells.without(cells.numbers("plan_gpu", PERCENT, blank=0) == 0, "plans no GPU")
    cells = cells.without(cells.empty("start_time"), "never started")
    cells = cells.without(cells.empty("end_time"), "not finished")
    arrival_s = cells.times("start_time")
    # plan_gpu is a percentage of one GPU for each instance. A share counts as a whole one: the gang is what
    # the job holds when nothing is packed.
    gpus_per_instance = np.ceil(cells.numbers("plan_gpu", PERCENT) / 100).astype(np.int64)
    # gpu_type is where it happened to run, often a catch-all such as MISC, so it does not bind the job.
    return RowBatch(
        lines=cells.lines,
        ids=[f"{job}/{task}" for job, task in zip(cells.ids("job_name"), cells.texts("task_name"), strict=True)],
        arrival_s=arrival_s,
        duration_s=_pai_duration_s(cells, arrival_s),
        gang_size=cells.counts("inst_num") * gpus_per_instance,
    )


def _pai_duration_s(cells: Cells, start_s: Floats) -> Floats:
    duration_s = cells.times("end_time") - start_s
    if (duration_s < 0).any():
        cells.refuse(int((duration_s < 0).argmax()), "end_time", "a time at or after start_time")
    return duration_s


PAI = Sheet(("job_name", "task_name", "inst_num", "start_time", "end_time", "plan_gpu"), _pai_batch)


# ---- AlloX's experiment: jobs that all arrive at once and run on a CPU node or on a GPU node.


def _allox_batch(cells: Cells) -> RowBatch:
    on_cpu_s = cells.numbers("cpu_s", RUN_SECONDS)
    count = len(cells.lines)
    return RowBatch(
        lines=cells.lines,
        ids=cells.ids("job"),
        arrival_s=np.zeros(count),
        duration_s=on_cpu_s,
        gang_size=np.ones(count, np.int64),
        tenants=cells.texts("user", blank="default"),
        device_types=[frozenset({"cpu", "gpu"})] * count,
        duration_by_type_s={"cpu": on_cpu_s, "gpu": cells.numbers("gpu_s", RUN_SECONDS)},
    )


ALLOX = Sheet(("job", "user", "cpu_s", "gpu_s"), _allox_batch)


# ---- The workload files of the Tiresias simulator.


def _tiresias_batch(cells: Cells) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        ids=cells.ids("job_id"),
        arrival_s=cells.times("submit_time"),
        duration_s=cells.seconds("duration"),
        gang_size=cells.counts("num_gpu"),
        models=cells.texts("model_name"),
    )


TIRESIAS = Sheet(("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration"), _tiresias_batch)
