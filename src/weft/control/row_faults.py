"""Every row of the log, decoded by one function that fails on nothing: it says what is wrong with a row."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from weft.control.checksums import is_intact
from weft.control.record import COLUMNS, record_of
from weft.core.serialization import KINDS, fact_of
from weft.core.snapshot import restored

KEYS: Mapping[str, tuple[str, ...]] = {
    "log": ("seq",),
    "snapshots": ("seq",),
    "clock": ("only",),
    "settings": ("name",),
    "environments": ("id",),
    "jobs": ("id",),
    "requests": ("request_id",),
    "attempts": ("job", "attempt"),
}
"""The tables, and by what a row of each is named."""


def named(table: str, row: Mapping[str, Any]) -> str:
    return f"row {'.'.join(str(row[key]) for key in KEYS[table])} of {table}"


def fault_of(table: str, row: Mapping[str, Any]) -> str | None:
    """What is wrong with a row; None if it is as it was written and can be decoded."""
    try:
        if not is_intact(table, row):
            return "its checksum is wrong"
        if table in DECODERS:
            DECODERS[table](row)
    except Exception as error:  # noqa: BLE001 - whatever a damaged row makes the decoder do, the row is what is wrong
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def _log(row: Mapping[str, Any]) -> None:
    body = _typed(row["body"], dict)
    if row["kind"] in KINDS:
        fact_of(row["kind"], body)


def _snapshot(row: Mapping[str, Any]) -> None:
    restored(_typed(row["body"], dict))


def _setting(row: Mapping[str, Any]) -> None:
    if row["name"] == "floor":
        fields = _typed(row["value"], dict)
        if not isinstance(fields["machine"], str) or not all(isinstance(each, dict) for each in fields["devices"]):
            raise TypeError("not a node and its devices")
    elif row["name"] == "last number":
        int(row["value"])


def _environment(row: Mapping[str, Any]) -> None:
    if not all(isinstance(each, str) for pair in _typed(row["body"], dict).items() for each in pair):
        raise TypeError("not names and values")
    if sha256(row["body"].encode()).hexdigest() != row["digest"]:
        raise ValueError("its digest is wrong")


def _job(row: Mapping[str, Any]) -> None:
    record = record_of([row[column] for column in COLUMNS], None)
    if not isinstance(record.request, dict):
        raise TypeError("its request is not a table")
    asked = record.request
    texts = (asked["name"], asked["tenant"], asked["cwd"], *asked["command"])
    if not all(isinstance(each, str) for each in texts) or asked["gpus"] % asked["ntasks"]:
        raise TypeError("its request is not one that could be made")


def _attempt(row: Mapping[str, Any]) -> None:
    if not all(isinstance(each, str) for each in _typed(row["devices"], list)):
        raise TypeError("its devices are not names")


def _typed(text: str, kind: type) -> Any:
    found = json.loads(text)
    if not isinstance(found, kind):
        raise TypeError(f"not a {kind.__name__}")
    return found


DECODERS: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
    "log": _log,
    "snapshots": _snapshot,
    "settings": _setting,
    "environments": _environment,
    "jobs": _job,
    "attempts": _attempt,
}
