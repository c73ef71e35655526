"""weft's own form: a CSV file with arrival, duration and gang, and whatever else is known of a job."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from itertools import compress
from typing import NoReturn

import numpy as np

from weft.core.errors import InputError
from weft.sim.trace.column_store import Floats, RowBatch
from weft.sim.trace.formats.csv_table import Sheet
from weft.sim.trace.schema import (
    AMOUNT,
    CLASS_EXPECTED,
    RUN_SECONDS,
    SECONDS,
    SIZE_EXPECTED,
    TYPES_EXPECTED,
    Cells,
    device_types,
    job_class,
    size_bytes,
)

SYNONYMS = {
    "arrival_s": "arrival",
    "arrival_time": "arrival",
    "submit_time": "arrival",
    "duration_s": "duration",
    "gang_size": "gang",
    "gpus": "gang",
    "num_gpus": "gang",
    "job": "id",
    "job_id": "id",
    "user": "tenant",
    "job_class": "class",
    "model_name": "model",
    "memory_bytes": "memory",
    "min_run_s": "min_run",
    "device_types": "types",
}
OPTIONAL = ("id", "tenant", "class", "model", "memory", "skew", "min_run", "types")


def _by_duration(cells: Cells) -> RowBatch:
    for name in _typed_durations(cells):
        _refuse_both(cells, "duration", name)
    types = cells.converted("types", device_types, TYPES_EXPECTED) if cells.has("types") else None
    return replace(_batch(cells, cells.seconds("duration")), device_types=types)


def _by_type(cells: Cells) -> RowBatch:
    names = _typed_durations(cells)
    if cells.has("types"):
        _refuse_both(cells, "types", names[0])
    # An empty cell means that the job does not run on that type.
    columns_s = [cells.numbers(name, RUN_SECONDS, blank=math.nan) for name in names]
    duration_s = reduce(lambda first_s, next_s: np.where(np.isnan(first_s), next_s, first_s), columns_s)
    if np.isnan(duration_s).any():
        cells.refuse(int(np.isnan(duration_s).argmax()), names[0], f"{RUN_SECONDS.expected}, here or on another type")
    types = [name.removeprefix("duration.") for name in names]
    runs_on = np.isfinite(columns_s).T.tolist()
    return replace(
        _batch(cells, duration_s),
        device_types=[frozenset(compress(types, runs)) for runs in runs_on],
        duration_by_type_s=dict(zip(types, columns_s, strict=True)),
    )


def _batch(cells: Cells, duration_s: Floats) -> RowBatch:
    return RowBatch(
        lines=cells.lines,
        arrival_s=cells.times("arrival"),
        duration_s=duration_s,
        gang_size=cells.counts("gang"),
        ids=cells.ids("id") if cells.has("id") else None,
        tenants=cells.texts("tenant", blank="default") if cells.has("tenant") else None,
        job_classes=cells.converted("class", job_class, CLASS_EXPECTED) if cells.has("class") else None,
        memory_bytes=cells.converted("memory", size_bytes, SIZE_EXPECTED) if cells.has("memory") else None,
        skew=cells.numbers("skew", AMOUNT, blank=math.nan) if cells.has("skew") else None,
        min_run_s=cells.numbers("min_run", SECONDS, blank=0) if cells.has("min_run") else None,
        models=cells.texts("model") if cells.has("model") else None,
    )


def _typed_durations(cells: Cells) -> list[str]:
    return [name for name in cells.columns if name.startswith("duration.")]


def _refuse_both(cells: Cells, one: str, other: str) -> NoReturn:
    message = f"{cells.file.name}: {cells.labels[one]} and {cells.labels[other]} contradict each other"
    raise InputError(message, "duration.TYPE columns stand in place of duration and types.")


PLAIN = Sheet(("arrival", "duration", "gang"), _by_duration, SYNONYMS, OPTIONAL)
BY_TYPE = Sheet(("arrival", "duration.*", "gang"), _by_type, SYNONYMS, OPTIONAL)
