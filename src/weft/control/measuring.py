"""What nodes measure of jobs that compute, alone or beside others, and what company costs a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.control.inputs import Measurement
from weft.control.memory import MOST_COUNTED
from weft.core.events import Grown, Measured, Stepped
from weft.core.job import Job

if TYPE_CHECKING:
    from weft.control.desk import Desk

MOST_NEIGHBOURS = 1_000
SIZES = ("persistent_bytes", "ephemeral_bytes")
COMPARED = ("alone_hz", "error", "window")
"""Of a job that was set against itself alone; None of any other."""
GROWN_BYTES, GROWN = 1 << 20, 0.05
"""By so much at least: what a job allocates differs a little from step to step."""


def measurement_of(message: Mapping[str, Any]) -> Measurement | None:
    """A node's word, if it makes sense; it comes from pages that a job may have written over."""
    is_about_an_attempt = (
        isinstance(message.get("job"), str)
        and isinstance(message.get("attempt"), int)
        and isinstance(message.get("generation"), int)
    )
    told = _measured_of(message) if is_about_an_attempt else None
    return Measurement(message["attempt"], told) if told else None


def growth_of(desk: Desk, job_id: str, progress: Mapping[str, Any]) -> Measurement | None:
    """From what a node says of a job every second: that it needs more memory than is known, if it does."""
    record, sizes = desk.records.get(job_id), progress.get("needs_bytes")
    if record is None or not record.is_alive or record.ending:
        return None
    if not isinstance(sizes, list) or len(sizes) != len(SIZES) or not all(map(_is_number, sizes)):
        return None
    if not isinstance(progress.get("generation"), int):
        return None
    grown = Grown(job_id, progress["generation"], *map(int, sizes))
    return Measurement(record.attempt, grown) if _is_news(grown, desk.job(job_id)) else None


def first_step_of(desk: Desk, job_id: str, progress: Mapping[str, Any]) -> Measurement | None:
    """From what a node says of a job every second: that it has made its first step, if the log has none yet."""
    record = desk.records.get(job_id)
    if record is None or not record.is_alive or not _is_number(progress.get("step")) or not progress["step"]:
        return None
    job = desk.job(job_id)
    return Measurement(record.attempt, Stepped(job_id, job.generation)) if job.startup_left_s else None


def _measured_of(message: Mapping[str, Any]) -> Measured | None:
    numbers = [message.get("rate_hz"), message.get("utilisation"), message.get("steps", 0)]
    compared = [message.get(name) for name in COMPARED]
    sizes = [message.get(name) for name in SIZES]
    is_weighed = sizes != [None, None]
    neighbours = message.get("neighbours") or []
    is_sane = (
        all(_is_number(number) for number in (numbers + sizes if is_weighed else numbers))
        and all(number is None or _is_number(number) for number in compared)
        and isinstance(neighbours, list)
        and len(neighbours) <= MOST_NEIGHBOURS
        and all(isinstance(each, str) for each in neighbours)
    )
    if not is_sane:
        return None
    rate_hz, utilisation, steps = (float(number or 0) for number in numbers)
    persistent_bytes, ephemeral_bytes = (int(size or 0) if is_weighed else None for size in sizes)
    alone_hz, error = (None if number is None else float(number) for number in compared[:2])
    return Measured(
        message["job"],
        message["generation"],
        rate_hz,
        utilisation,
        persistent_bytes,
        ephemeral_bytes,
        tuple(sorted(neighbours)),
        int(steps),
        alone_hz,
        error,
        int(compared[2] or 0),
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= MOST_COUNTED


def measured(desk: Desk, word: Measurement, now: float) -> None:
    """Of the lease that the job computes under now; anything else comes too late to be of use."""
    record = desk.records.get(word.measured.job_id)
    if record is None or not record.is_alive or record.ending or record.attempt != word.attempt:
        return
    job = desk.job(record.id)
    if isinstance(word.measured, Stepped):
        if job.startup_left_s and job.generation == word.measured.generation:
            desk.tell(word.measured, now)
        return
    if not job.is_computing or job.generation != word.measured.generation:
        return
    if isinstance(word.measured, Measured):
        desk.tell(_with_known_memory(word.measured, job), now)
    elif _is_news(word.measured, job):
        desk.tell(word.measured, now)


def _is_news(told: Grown, job: Job) -> bool:
    """In all, or of what lasts, which in a lane counts for more. Of who was never measured what it declared counts."""
    known = job.memory if job.measured and job.generation == told.generation else None
    if known is None:
        return False
    known_bytes = known.persistent_bytes + known.ephemeral_bytes
    least_bytes = max(GROWN_BYTES, GROWN * known_bytes)
    is_more = told.persistent_bytes + told.ephemeral_bytes - known_bytes > least_bytes
    return is_more or told.persistent_bytes - known.persistent_bytes > least_bytes


def _with_known_memory(told: Measured, job: Job) -> Measured:
    """What was seen of its memory before, if nobody can see it just now: a driver may not answer for a moment."""
    before = job.measured
    if told.persistent_bytes is not None or before is None:
        return told
    return replace(told, persistent_bytes=before.persistent_bytes, ephemeral_bytes=before.ephemeral_bytes)


def interference_ratio(job: Job, beside: Collection[str]) -> float | None:
    """Its rate beside these jobs as a part of its rate alone; None while one of the two is not measured."""
    measured, alone = job.measured, job.alone
    if measured is None or alone is None or not beside or set(measured.neighbours) != set(beside):
        return None
    ratio = measured.rate_hz / alone.rate_hz if alone.rate_hz else math.inf
    return round(ratio, 4) if math.isfinite(ratio) else None
