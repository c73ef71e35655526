"""Checks of what the coordinator sends: it repeats what jobs wrote, so every message is bounded and typed.

Each function returns None for a message that is malformed; nothing of it is used then.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from weft.control.loop.inputs import Hello, Measurement, Report
from weft.core.events import Measured

ABOUT = ("type", "serial", "job", "attempt", "generation", "what")
TEXT_LETTERS = 4_000
MOST_ENTRIES = 10_000
DEEPEST = 5
LARGEST = 2**53
MOST_WARNINGS = 20
MOST_NEIGHBOURS = 1_000


SIZES = ("persistent_bytes", "ephemeral_bytes")


COMPARED = ("alone_hz", "error", "window")
"""Of a job that was set against itself alone; None of any other."""


DEVICE: Mapping[str, type] = {"index": int, "kind": str, "type": str, "name": str, "memory_bytes": int}
FIELDS: Mapping[str, type | tuple[type, ...]] = {
    "pids": list,
    "step": int,
    "exit_code": (int, type(None)),
    "message": str,
    "reason": str,
    "progress": dict,
    "checkpoint_step": int,
}
"""What is read of a report. Whatever else it says is only kept in the log."""
NUMBERS = ("step", "step_rate_hz", "host_bytes", "persistent_bytes", "ephemeral_bytes", "overflow_bytes", "peak_bytes")


def report_of(message: Mapping[str, Any]) -> Report | None:
    job, attempt, what = message.get("job"), message.get("attempt"), message.get("what")
    if not (isinstance(job, str) and _is_count(attempt) and isinstance(what, str)):
        return None
    body: dict[str, Any] = bounded({key: value for key, value in message.items() if key not in ABOUT})
    if not all(isinstance(body[field], kind) for field, kind in FIELDS.items() if field in body):
        return None
    if what in ("paused", "left") and "step" not in body:
        return None
    if not all(map(_is_count, [*body.get("pids", ()), body.get("checkpoint_step", 0)])):
        return None
    if "progress" in body:
        body["progress"] = progress_of(body["progress"])
    return Report(job, int(attempt or 0), what[:TEXT_LETTERS], body)


def progress_of(said: object) -> dict[str, Any]:
    """How far an attempt has come. What is not a number is left out."""
    if not isinstance(said, dict):
        return {}
    told: dict[str, Any] = bounded(said)
    for name in NUMBERS:
        if not _is_number(told.get(name, 0)):
            del told[name]
    metrics = told.get("metrics")
    if not isinstance(metrics, dict) or not all(value is None or _is_number(value) for value in metrics.values()):
        told.pop("metrics", None)
    return told


def hello_of(message: Mapping[str, Any]) -> Hello | None:
    node, boot_id, attempts = message.get("node"), message.get("boot_id"), message.get("attempts")
    devices = devices_of(message)
    if not isinstance(node, str) or not isinstance(boot_id, str) or not isinstance(attempts, list) or devices is None:
        return None
    if not all(
        isinstance(each, dict) and isinstance(each.get("job"), str) and _is_count(each.get("attempt"))
        for each in attempts
    ):
        return None
    named = frozenset((each["job"], each["attempt"]) for each in attempts)
    ended = frozenset((each["job"], each["attempt"]) for each in attempts if each.get("ended") is True)
    cpus = message.get("cpus")
    return Hello(_text(node), devices, _text(boot_id), named, ended, cpus if _is_count(cpus) and cpus else None)


def devices_of(message: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    devices = message.get("devices")
    if not isinstance(devices, list) or len(devices) > MOST_ENTRIES:
        return None
    for device in devices:
        if not isinstance(device, dict) or not all(isinstance(device.get(key), kind) for key, kind in DEVICE.items()):
            return None
        if not _is_count(device["index"]) or not _is_count(device["memory_bytes"]):
            return None
    return [bounded(device) for device in devices]


def warnings_of(message: Mapping[str, Any]) -> list[str]:
    said = message.get("warnings")
    texts = said[:MOST_WARNINGS] if isinstance(said, list) else []
    return [_text(each)[:300] for each in texts if isinstance(each, str)]


def bounded(value: Any, depth: int = 0) -> Any:
    """The same, with an end to every text, list, number and depth."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return max(-LARGEST, min(value, LARGEST))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= DEEPEST:
        return None
    if isinstance(value, dict):
        return {_text(key): bounded(each, depth + 1) for key, each in list(value.items())[:MOST_ENTRIES]}
    return [bounded(each, depth + 1) for each in value[:MOST_ENTRIES]]


def _text(text: str) -> str:
    """Bytes that are no UTF-8 become visible: the log takes only text."""
    return text[:TEXT_LETTERS].encode(errors="backslashreplace").decode()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and abs(value) <= LARGEST)


def measurement_of(message: Mapping[str, Any]) -> Measurement | None:
    """What a node measured, if it is well-formed; it comes from pages that a job may have written over."""
    is_about_an_attempt = (
        isinstance(message.get("job"), str)
        and isinstance(message.get("attempt"), int)
        and isinstance(message.get("generation"), int)
    )
    told = _measured_of(message) if is_about_an_attempt else None
    return Measurement(message["attempt"], told) if told else None


def _measured_of(message: Mapping[str, Any]) -> Measured | None:
    numbers = [message.get("rate_hz"), message.get("utilisation"), message.get("steps", 0)]
    compared = [message.get(name) for name in COMPARED]
    sizes = [message.get(name) for name in SIZES]
    is_weighed = sizes != [None, None]
    neighbours = message.get("neighbours") or []
    is_sane = (
        all(is_quantity(number) for number in (numbers + sizes if is_weighed else numbers))
        and all(number is None or is_quantity(number) for number in compared)
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


def is_quantity(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value <= LARGEST
