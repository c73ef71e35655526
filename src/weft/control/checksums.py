"""A checksum of each row of the log. SQLite keeps none: a changed bit inside a row would go unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

COVERED: Mapping[str, tuple[str, ...]] = {
    "log": ("at", "kind", "job", "body"),
    "snapshots": ("seq", "at", "body"),
    "clock": ("at", "boot_id", "boot_s"),
    "settings": ("name", "value"),
    "requests": ("request_id", "number"),
    "jobs": (
        "id", "number", "array_index", "name", "tenant", "class", "state", "reason", "exit_code", "attempt", "is_alive",
        "failures", "losses", "preemptions", "unseats", "submitted_at", "started_at", "finished_at", "not_before",
        "ending", "run_s", "wait_s", "steps", "step_rate_hz", "persistent_bytes", "ephemeral_bytes", "overflow_bytes",
        "peak_bytes", "request",
    ),
    "attempts": (
        "job", "attempt", "devices", "lane_base", "lane_weight", "granted_at", "started_at", "ended_at", "outcome",
        "exit_code",
    ),
}  # fmt: skip
"""The environment of a job is not covered: it is taken off the row of an ended one. Environments have a digest."""


def checksum(table: str, row: Mapping[str, Any]) -> int:
    """Numbers count as floats: a column of reals returns 5.0 where 5 was written."""
    values = [row[column] for column in COVERED[table]]
    plain = [str(float(each)) if isinstance(each, int | float) else str(each) for each in values]
    return crc32("\x1f".join(plain).encode("utf-8", "surrogatepass"))


def is_intact(table: str, row: Mapping[str, Any]) -> bool:
    """Whether a row is as it was written; one without a checksum is believed."""
    return table not in COVERED or row["checksum"] is None or row["checksum"] == checksum(table, row)
