"""What nodes measure of jobs that compute, alone or beside others, and what company costs a job."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.control.inputs import Measurement
from weft.control.memory import MOST_COUNTED
from weft.core.events import Measured
from weft.core.job import Job

if TYPE_CHECKING:
    from weft.control.desk import Desk

MOST_NEIGHBOURS = 1_000


def measurement_of(message: Mapping[str, Any]) -> Measurement | None:
    """A node's word, if it makes sense; it comes from pages that a job may have written over."""
    numbers = [message.get(name) for name in ("rate_hz", "utilisation")]
    sizes = [message.get(name) for name in ("persistent_bytes", "ephemeral_bytes")]
    is_weighed = sizes != [None, None]
    neighbours = message.get("neighbours") or []
    is_sane = (
        isinstance(message.get("job"), str)
        and isinstance(message.get("attempt"), int)
        and isinstance(message.get("generation"), int)
        and all(
            isinstance(number, int | float) and 0 <= number <= MOST_COUNTED
            for number in (numbers + sizes if is_weighed else numbers)
        )
        and isinstance(neighbours, list)
        and len(neighbours) <= MOST_NEIGHBOURS
        and all(isinstance(each, str) for each in neighbours)
    )
    if not is_sane:
        return None
    rate_hz, utilisation = (float(number or 0) for number in numbers)
    persistent_bytes, ephemeral_bytes = (int(size or 0) if is_weighed else None for size in sizes)
    return Measurement(
        message["attempt"],
        Measured(
            message["job"],
            message["generation"],
            rate_hz,
            utilisation,
            persistent_bytes,
            ephemeral_bytes,
            tuple(sorted(neighbours)),
        ),
    )


def measured(desk: Desk, word: Measurement, now: float) -> None:
    """Of the lease that the job computes under now; anything else comes too late to be of use."""
    record = desk.records.get(word.measured.job_id)
    if record is None or not record.is_alive or record.ending or record.attempt != word.attempt:
        return
    job = desk.job(record.id)
    if job.is_computing and job.generation == word.measured.generation:
        desk.tell(_with_known_memory(word.measured, job), now)


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
