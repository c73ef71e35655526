"""The published traces that are tables: Philly, Helios, PAI, AlloX and Tiresias, known by their columns, and Gavel."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from weft.core.errors import InputError
from weft.core.text import count_of
from weft.sim.trace.column_store import Floats, RowBatch
from weft.sim.trace.formats.csv_table import BATCH_ROWS, NumberedRow, Sheet
from weft.sim.trace.schema import AMOUNT, COUNT, PERCENT, RUN_SECONDS, Cells, number_or_nan
from weft.sim.trace.trace_file import TraceFile


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


# ---- Gavel: a line a job, tab separated, without a header.

GAVEL_FIELDS = (
    "job_type", "command", "working_directory", "num_steps_arg", "needs_data_dir",
    "total_steps", "scale_factor", "priority_weight", "SLO", "arrival_time",
)  # fmt: skip
GAVEL_NUMBERS = ("total_steps", "scale_factor", "arrival_time")
GAVEL_LABELS = {name: f"field {number} ({name})" for number, name in enumerate(GAVEL_FIELDS, 1)}


class GavelTrace:
    """It counts a job's work in steps and does not say how long a step takes: Gavel looks that up in a table of
    measured steps per second. So a step is a second here, as everywhere in weft where no rate is known: `duration_s` is
    the number of steps, and a world that knows the rate of a job's model on a device type makes another time of it. The
    model is Gavel's job type, "ResNet-18 (batch size 32)", word for word, because such tables are keyed by it.
    """

    needs = f"{len(GAVEL_FIELDS)} fields separated by tabs: {', '.join(GAVEL_FIELDS)}"

    def fits(self, first_line: str) -> bool:
        """There is no header to know it by, but there are numbers where they should be."""
        cells = _gavel_cells(first_line)
        if len(cells) != len(GAVEL_FIELDS):
            return False
        numbers = (number_or_nan(cells[GAVEL_FIELDS.index(name)]) for name in GAVEL_NUMBERS)
        return all(number == number for number in numbers)

    def batches(self, file: TraceFile) -> Iterator[RowBatch]:
        rows = _gavel_rows(file)
        while numbered := list(islice(rows, BATCH_ROWS)):
            lines, cells = zip(*numbered, strict=True)
            columns = dict(zip(GAVEL_FIELDS, zip(*cells, strict=True), strict=True))
            yield _gavel_batch(Cells(file, lines, columns, GAVEL_LABELS))


def _gavel_rows(file: TraceFile) -> Iterator[NumberedRow]:
    for number, line in enumerate(file.lines(), 1):
        if not line.strip():
            continue
        cells = _gavel_cells(line)
        if len(cells) != len(GAVEL_FIELDS):
            found = f"{file.name}, line {number}: {count_of(len(cells), 'field')}"
            raise InputError(
                f"{found}, but a job of Gavel has {len(GAVEL_FIELDS)}", f"Separated by tabs: {', '.join(GAVEL_FIELDS)}."
            )
        yield number, cells


def _gavel_cells(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _gavel_batch(cells: Cells) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        arrival_s=cells.times("arrival_time"),
        duration_s=cells.numbers("total_steps", COUNT),
        gang_size=cells.counts("scale_factor"),
        models=cells.texts("job_type"),
    )


GAVEL = GavelTrace()
