"""A job that has ended, as a new submission: the same command, folder, environment and options."""

from __future__ import annotations

import json
from typing import Any

from weft.control.inputs import Submit
from weft.control.refusals import ConflictError, no_such_job
from weft.control.store import Row, Store
from weft.system.units import parse_array

AS_SUBMITTED_NOW: dict[str, Any] = {
    "after": [],
    "begin_at": None,
    "hold": False,
    "stdin": False,
    "split": False,
    "tty": None,
}
"""It starts as soon as it can and nobody is attached to it: what it came after is over, and it has no input."""


def resubmission(store: Store, wanted: str, request_id: str | None) -> Submit:
    """Of an array by its number, all elements; of one element, an array of that element alone, with its index."""
    row = store.one("job", wanted)
    is_array = row is None
    if row is None:
        row = _first_of_array(store, wanted)
    elif row["finished_at"] is None:
        raise ConflictError(f"job {wanted} has not ended", f"weft cancel {wanted}, and weft wait {wanted}, come first")
    request = {**json.loads(row["request"]), **AS_SUBMITTED_NOW, "array_limit": None}
    if is_array:
        request["array_indices"], request["array_limit"] = parse_array(request["array"])
    elif row["array_index"] is not None:
        request["array"], request["array_indices"] = str(row["array_index"]), [row["array_index"]]
    return Submit(request, _environment(store, row), request_id)


def _first_of_array(store: Store, wanted: str) -> Row:
    counts = store.one("element_counts", int(wanted)) if wanted.isdecimal() else None
    row = store.one("first_element", int(wanted)) if counts and counts["jobs"] else None
    if counts is None or row is None:
        raise no_such_job(wanted)
    if counts["ended"] < counts["jobs"]:
        left = f"{counts['jobs'] - counts['ended']:,} of the {counts['jobs']:,} elements of array {wanted}"
        raise ConflictError(f"{left} have not ended", f"weft cancel {wanted}, and weft wait {wanted}, come first")
    return row


def _environment(store: Store, row: Row) -> dict[str, str]:
    if row["environment"] is None:
        command = " ".join(json.loads(row["request"])["command"])[:60]
        raise ConflictError(
            f"the environment of job {row['id']} is not kept any more: it ended too long ago",
            f"submit it again from a shell like the one it was submitted from: weft submit -- {command}",
        )
    return store.environment(row["environment"])
