"""What is refused, and what to do instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.control.floor import Floor
from weft.control.record import IN_WORDS, State
from weft.core.errors import InputError
from weft.core.text import count_of


class NotFoundError(InputError):
    """Nothing has that name."""


class ArrayError(NotFoundError):
    """It is the number of an array, and what was asked for is one job's."""


class ConflictError(InputError):
    """It cannot be done in the state that the job is in."""


def no_such_job(job_id: str) -> NotFoundError:
    return NotFoundError(f"there is no job {job_id}", "weft queue --all lists them")


def already_over(wanted: str, ended: Sequence[tuple[str, str]]) -> ConflictError:
    if len(ended) > 1:
        return ConflictError(f"all of array {wanted} is over already", f"weft status {ended[0][0]}")
    job_id, state = ended[0]
    return ConflictError(f"job {job_id} {IN_WORDS[State(state)]} already", f"weft status {job_id}")


def not_waiting(job_id: str) -> ConflictError:
    return ConflictError(f"job {job_id} runs, and only a waiting job can be held", f"weft pause {job_id} pauses it")


def being_ended(job_id: str) -> ConflictError:
    return ConflictError(f"job {job_id} is being ended", f"weft wait {job_id} returns when it is over")


def check_fits(request: Mapping[str, Any], floor: Floor, quotas: Mapping[str, int]) -> None:
    """Refuse what could never start here. Before a node has come, nobody knows, and the job waits for it."""
    gpus, wanted = request["gpus"], request.get("types")
    if request["class"] == "guaranteed" and gpus > quotas.get(request["tenant"], 0 if quotas else gpus):
        quota = quotas.get(request["tenant"], 0)
        raise InputError(
            f"a guaranteed job of {count_of(gpus, 'device')}, but tenant {request['tenant']} has a quota of {quota}",
            "--class opportunistic uses what is left; quotas are in weft.toml",
        )
    if not floor.devices:
        return
    counts = {kind: sum(device["type"] == kind for device in floor.devices) for kind in wanted or _types(floor)}
    most = max(counts.values(), default=0)
    if most == 0:
        there = ", ".join(_types(floor))
        raise InputError(f"there are no devices of type {' or '.join(wanted or ())} here", f"there are: {there}")
    if gpus > most:
        raise InputError(f"it asks for {count_of(gpus, 'device')}, and there are only {most}", "weft nodes lists them")
    _check_bounds(request, floor)
    memory_bytes = request.get("gpu_mem_bytes") or 0
    if memory_bytes > gpus // request["ntasks"] * floor.largest_memory_bytes():
        largest = floor.largest_memory_bytes() / 2**30
        raise InputError(
            f"{memory_bytes / 2**30:.1f} GiB of device memory, and the largest device has {largest:.1f} GiB",
            "ask for less, or for more devices",
        )


def _check_bounds(request: Mapping[str, Any], floor: Floor) -> None:
    """CPU cores and devices that are named: this machine has them, and those devices are of one type."""
    cpus, ntasks = (request.get("cpus") or 0) * request["ntasks"], request["ntasks"]
    if floor.cpus is not None and cpus > floor.cpus:
        each = f", {request['cpus']} for each of {ntasks} tasks" if ntasks > 1 else ""
        raise InputError(f"it asks for {cpus} CPU cores{each}, and there are only {floor.cpus}", "ask for fewer")
    named = [device for device in floor.devices if device["index"] in (request.get("gpu_ids") or ())]
    if request.get("gpu_ids") and len(named) < len(request["gpu_ids"]):
        there = ", ".join(str(device["index"]) for device in floor.devices)
        missing = sorted(set(request["gpu_ids"]) - {device["index"] for device in named})
        raise InputError(f"there is no device {', '.join(map(str, missing))} here", f"there are: {there}")
    if len(kinds := {device["type"] for device in named}) > 1:
        raise InputError(f"these devices are of several types: {', '.join(sorted(kinds))}", "weft nodes lists them")
    if named and request.get("types") and not kinds & set(request["types"]):
        raise InputError(f"these devices are of type {kinds.pop()}", "leave --types away, or name other devices")


def _types(floor: Floor) -> list[str]:
    return list(dict.fromkeys(device["type"] for device in floor.devices))
