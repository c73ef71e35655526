"""Microsoft Philly's own log: a JSON list of jobs, each with its attempts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from weft.core.errors import InputError
from weft.sim.trace.column_store import Floats, Ints, RowBatch
from weft.sim.trace.schema import Cells
from weft.sim.trace.trace_file import TraceFile, entries

BATCH_JOBS = 4096

SHAPE = "jobid, vc, submitted_time and attempts, each with start_time, end_time and detail"


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """An attempt that has both a start and an end."""

    start: str
    end: str
    gpu_count: int


@dataclass(frozen=True, slots=True)
class LoggedJob:
    line: int
    id: str
    vc: str
    submitted: str
    runs: list[LoggedRun]


class PhillyLog:
    needs = "a JSON list of jobs with jobid, vc, submitted_time and attempts"

    def fits(self, first_line: str) -> bool:
        return first_line.lstrip().startswith("[")

    def batches(self, file: TraceFile) -> Iterator[RowBatch]:
        logged = (_logged_job(file, line, entry) for line, entry in entries(file))
        while jobs := list(islice(logged, BATCH_JOBS)):
            jobs = _kept(file, jobs, lambda job: job.runs and job.submitted, "never ran")
            jobs = _kept(file, jobs, lambda job: job.runs[-1].gpu_count, "ran without a GPU")
            yield _batch(file, jobs)


def _logged_job(file: TraceFile, line: int, entry: Any) -> LoggedJob:
    try:
        return LoggedJob(
            line=line,
            id=str(entry["jobid"]),
            vc=str(entry["vc"]),
            submitted=_time(entry["submitted_time"]),
            runs=[
                LoggedRun(start, end, sum(len(node["gpus"]) for node in attempt["detail"] or ()))
                for attempt in entry["attempts"]
                if (start := _time(attempt["start_time"])) and (end := _time(attempt["end_time"]))
            ],
        )
    except (KeyError, TypeError) as error:
        message = f"{file.name}, line {line}: the entry that starts here is not a job of the Philly log"
        raise InputError(f"{message} ({error!r})", f"A job has {SHAPE}.") from None


def _time(value: object) -> str:
    """The log writes a time that is not known as null or as the word None."""
    return "" if value in (None, "None") else str(value)


def _kept(file: TraceFile, jobs: list[LoggedJob], test: Callable[[LoggedJob], object], reason: str) -> list[LoggedJob]:
    kept = [job for job in jobs if test(job)]
    if len(kept) < len(jobs):
        file.left_out[reason] += len(jobs) - len(kept)
    return kept


def _batch(file: TraceFile, jobs: list[LoggedJob]) -> RowBatch:
    run_s, job_of_run = _run_times(file, jobs)
    duration_s = np.bincount(job_of_run, run_s, len(jobs)).astype(np.float64)
    gang_size = np.array([job.runs[-1].gpu_count for job in jobs], np.int64)
    # The log has local time: an attempt over the end of summer time may seem to end before it starts.
    backwards = np.bincount(job_of_run, run_s < 0, len(jobs)) > 0
    columns = {
        "jobid": [job.id for job in jobs],
        "vc": [job.vc for job in jobs],
        "submitted_time": [job.submitted for job in jobs],
    }
    cells = _cells(file, [job.line for job in jobs], columns)
    cells = cells.without(backwards, "an attempt ends before it starts")
    return RowBatch(
        lines=cells.lines,
        arrival_s=cells.times("submitted_time"),
        duration_s=duration_s[~backwards],
        gang_size=gang_size[~backwards],
        ids=cells.ids("jobid"),
        tenants=cells.texts("vc", blank="default"),
    )


def _run_times(file: TraceFile, jobs: list[LoggedJob]) -> tuple[Floats, Ints]:
    """How long each run took, and the position of its job."""
    runs = [(i, run) for i, job in enumerate(jobs) for run in job.runs]
    columns = {"start_time": [run.start for _, run in runs], "end_time": [run.end for _, run in runs]}
    cells = _cells(file, [jobs[i].line for i, _ in runs], columns)
    job_of_run = np.array([i for i, _ in runs], np.int64)
    return cells.times("end_time") - cells.times("start_time"), job_of_run


def _cells(file: TraceFile, lines: list[int], columns: Mapping[str, list[str]]) -> Cells:
    return Cells(file, lines, columns, {name: f"field {name}" for name in columns})


LOG = PhillyLog()
