"""What a node is told to do. Orders are safe to repeat, and carry the generation of the lease they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.control.record import Record

Order = dict[str, Any]


def run_order(
    record: Record, generation: int, devices: Sequence[Mapping[str, Any]], seat: Mapping[str, bool | int]
) -> Order:
    """The environment is put in when it is sent: it is large, and kept elsewhere.

    `seat` says whether the devices are its own, whether it is to be held back beside others, and in which lane it is.
    """
    request = record.request
    return {
        **_about("run", record, generation),
        "devices": [device["index"] for device in devices],
        "seat": dict(seat),
        "environment": record.environment,
        "launch": {
            "command": request["command"],
            "cwd": request["cwd"],
            "umask": request["umask"],
            "tasks": request["ntasks"],
            "devices_per_task": request["gpus"] // request["ntasks"],
            "limit_bytes": (request.get("gpu_mem_bytes") or 0) + (request.get("mem_bytes") or 0),
            "memory_bytes": request.get("gpu_mem_bytes"),
            "stdin": request.get("stdin", False),
            "split": request.get("split", False),
            "tty": request.get("tty"),
            "array_index": record.array_index,
            "cpus": request.get("cpus"),
            "output": request.get("output"),
            "name": record.name,
        },
    }


def pause_order(record: Record, generation: int, needs_bytes: int | None, comers: Sequence[str] = ()) -> Order:
    """To make room for those who come, who need so much memory in all; None if that is not known."""
    return {**_about("pause", record, generation), "needs_bytes": needs_bytes, "comers": list(comers)}


def stop_order(record: Record, generation: int) -> Order:
    return _about("stop", record, generation)


def _about(kind: str, record: Record, generation: int) -> Order:
    return {"type": kind, "job": record.id, "attempt": record.attempt, "generation": generation}
