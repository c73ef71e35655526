"""Handle what users ask for: submit, cancel, hold, pause, release, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.control.loop.inputs import Cancel, ChangePolicy, Hold, PauseByOwner, Release, StopAll, Submit
from weft.control.loop.inventory import Inventory
from weft.control.loop.job_record import JobRecord, spec_for
from weft.control.loop.job_state import (
    IN_WORDS,
    NONE_AWAITED,
    Awaited,
    DependencyKind,
    JobEnding,
    JobState,
    hold_for,
    hopeless,
    terms_of,
)
from weft.control.loop.lifecycle import end
from weft.control.store.log_store import POLICY_CHANGED
from weft.core.errors import InputError
from weft.core.events import Held, Released, Submitted
from weft.core.reasons import Code, Reason
from weft.core.text import count_of
from weft.system.request_limits import AWAITED, check_array, too_many_awaited

if TYPE_CHECKING:
    from weft.control.loop.control_state import ControlState
CANCELLED = "cancelled"
STOPPED = "ended by weft down --stop-jobs"
OWNERS = frozenset({Code.HELD, Code.PAUSED})
"""Holds by the owner of a job: its release ends them."""
Answer = dict[str, Any]


def submit(control: ControlState, asked: Submit, now: float) -> Answer:
    before = _answer_before(control, asked.request_id)
    if before is not None:
        return before
    request = dict(asked.request)
    check_fits(request, control.inventory, control.quotas)
    if request.get("gpu_ids") and len(control.inventory.by_node) > 1:
        request["types"] = control.inventory.types_of(request["gpu_ids"])
    awaits = _awaited(control, request.get("after") or ())
    indices = request.pop("array_indices", None) or [None]
    check_array(len(indices), len(json.dumps(request)))
    number = control.live_jobs.new_number()
    environment, row = control.live_jobs.keep(asked.env)
    control.out.environments += [row] if row else []
    rates_hz = control.past.rates_hz(request["name"]) if request.get("steps") else {}
    ids = []
    for place, index in enumerate(indices):
        job_id = str(number) if index is None else f"{number}_{index}"
        record = JobRecord(job_id, number, index, request, environment, now, awaits=awaits)
        control.live_jobs.add(record)
        control.apply(Submitted(spec_for(job_id, request, rates_hz)), now)
        for reason in _holds(record, place):
            control.apply(Held(job_id, reason), now)
        ids.append(job_id)
    if asked.request_id is not None:
        control.out.requests.append((asked.request_id, number))
    return {"id": str(number), "ids": ids}


def cancel(control: ControlState, asked: Cancel, now: float) -> Answer:
    ids = _live(control, asked.job_id)
    for job_id in ids:
        if job_id in control.records:  # not cancelled yet with a job that it depends on
            end(control, control.records[job_id], JobEnding(JobState.CANCELLED, CANCELLED), now)
    return {"ids": ids}


def hold(control: ControlState, asked: Hold, now: float) -> Answer:
    live = _live(control, asked.job_id)
    ids = [job_id for job_id in live if not control.job(job_id).is_running]
    if not ids:
        raise not_waiting(live[0])
    for job_id in ids:
        control.apply(Held(job_id), now)
    return {"ids": ids}


def pause(control: ControlState, asked: PauseByOwner, now: float) -> Answer:
    """A hold for running jobs too: they pause at the next step boundary. Repeated, it changes nothing."""
    live = _live(control, asked.job_id)
    staying = [job_id for job_id in live if not control.records[job_id].ending]
    if not staying:
        raise being_ended(live[0])
    ids = [job_id for job_id in staying if Code.PAUSED not in control.job(job_id).held_for]
    for job_id in ids:
        control.apply(Held(job_id, Reason(Code.PAUSED)), now)
    return {"ids": ids}


def release(control: ControlState, asked: Release, now: float) -> Answer:
    ids = []
    for job_id in _live(control, asked.job_id):
        held_for = control.job(job_id).held_for & OWNERS
        for code in sorted(held_for):
            control.apply(Released(job_id, code), now)
        ids += [job_id] if held_for else []
    return {"ids": ids}


def stop_all(control: ControlState, asked: StopAll, now: float) -> Answer:
    ids = [record.id for record in control.live_jobs.alive_after()]
    for job_id in ids:
        end(control, control.records[job_id], JobEnding(JobState.CANCELLED, STOPPED), now)
    control.is_closing = True
    return {"ids": ids}


def change_policy(control: ControlState, asked: ChangePolicy, now: float) -> Answer:
    control.scheduler.change_policy(asked.policy)
    control.wake_at = math.inf
    control.policy_error = ""
    control.note(POLICY_CHANGED, None, {"policy": asked.name})
    control.out.settings.append(("policy", asked.name))
    return {"policy": asked.name}


def _answer_before(control: ControlState, request_id: str | None) -> Answer | None:
    """The answer to an earlier copy of the same request, perhaps in this very instant."""
    if request_id is None:
        return None
    number = dict(control.out.requests).get(request_id, control.past.number_of(request_id))
    if number is None:
        return None
    ids = [job_id for job_id, _ in control.past.known(str(number))] or control.live_jobs.ids_of(str(number))
    return {"id": str(number), "ids": ids}


def _holds(record: JobRecord, place: int) -> list[Reason]:
    """Why it may not start yet. `place` is its place in its array."""
    found = [Reason(Code.HELD)] if record.request.get("hold") else []
    if record.awaits:
        found.append(hold_for(record.awaits))
    if record.array_limit is not None and place >= record.array_limit:
        found.append(Reason(Code.ARRAY_LIMIT, (record.array_limit,)))
    return found


def _live(control: ControlState, wanted: str) -> list[str]:
    live = control.live_jobs.ids_of(wanted)
    if live:
        return live
    ended = list(control.job_states(wanted).items())
    raise already_over(wanted, ended) if ended else no_such_job(wanted)


def _awaited(control: ControlState, wanted: Iterable[str]) -> Awaited:
    terms = terms_of(wanted)
    live = set[str]()
    for each, outcome in terms.items():
        known = control.job_states(each) | dict.fromkeys(control.live_jobs.ids_of(each), "")
        if not known:
            raise no_such_job(each)
        alive = known.keys() & control.records.keys()
        if len(live) + len(known) > AWAITED:
            raise too_many_awaited()
        live |= alive
        for job_id, state in known.items():
            has_failed_before = outcome is DependencyKind.NOT_OK and (alive or any(map(_is_failure, known.values())))
            if job_id not in alive and not has_failed_before:
                why = hopeless(each, outcome, job_id, JobState(state), control.job_states)
                if why:
                    raise InputError(why, "it would never start")
    return Awaited(terms, live) if terms else NONE_AWAITED


def _is_failure(state: str) -> bool:
    return state in (JobState.FAILED, JobState.CANCELLED)


class NotFoundError(InputError):
    """No such job."""


class ArrayIdError(NotFoundError):
    """The id is an array's, and the request is for a single job."""


class ConflictError(InputError):
    """The state of the job does not allow it."""


def no_such_job(job_id: str) -> NotFoundError:
    return NotFoundError(f"there is no job {job_id}", "weft queue --all lists them")


def already_over(wanted: str, ended: Sequence[tuple[str, str]]) -> ConflictError:
    if len(ended) > 1:
        return ConflictError(f"all of array {wanted} is over already", f"weft status {ended[0][0]}")
    job_id, state = ended[0]
    return ConflictError(f"job {job_id} {IN_WORDS[JobState(state)]} already", f"weft status {job_id}")


def not_waiting(job_id: str) -> ConflictError:
    return ConflictError(f"job {job_id} runs, and only a waiting job can be held", f"weft pause {job_id} pauses it")


def being_ended(job_id: str) -> ConflictError:
    return ConflictError(f"job {job_id} is being ended", f"weft wait {job_id} returns when it is over")


def check_fits(request: Mapping[str, Any], inventory: Inventory, quotas: Mapping[str, int]) -> None:
    """Refuse what could never start here. Before a node has connected that is unknown, and the job waits."""
    gpus, wanted = request["gpus"], request.get("types")
    if request["class"] == "guaranteed" and gpus > quotas.get(request["tenant"], 0 if quotas else gpus):
        quota = quotas.get(request["tenant"], 0)
        raise InputError(
            f"a guaranteed job of {count_of(gpus, 'device')}, but tenant {request['tenant']} has a quota of {quota}",
            "--class opportunistic uses what is left; quotas are in weft.toml",
        )
    if not inventory.devices:
        return
    counts = {kind: sum(device["type"] == kind for device in inventory.devices) for kind in wanted or _types(inventory)}
    most = max(counts.values(), default=0)
    if most == 0:
        there = ", ".join(_types(inventory))
        raise InputError(f"there are no devices of type {' or '.join(wanted or ())} here", f"there are: {there}")
    if gpus > most:
        raise InputError(f"it asks for {count_of(gpus, 'device')}, and there are only {most}", "weft nodes lists them")
    _check_bounds(request, inventory)
    memory_bytes = request.get("gpu_mem_bytes") or 0
    if memory_bytes > gpus // request["ntasks"] * inventory.largest_memory_bytes():
        largest = inventory.largest_memory_bytes() / 2**30
        raise InputError(
            f"{memory_bytes / 2**30:.1f} GiB of device memory, and the largest device has {largest:.1f} GiB",
            "ask for less, or for more devices",
        )


def _check_bounds(request: Mapping[str, Any], inventory: Inventory) -> None:
    """Refuse CPU cores and named devices that this machine lacks, and named devices of several types."""
    cpus, ntasks = (request.get("cpus") or 0) * request["ntasks"], request["ntasks"]
    if inventory.cpus is not None and cpus > inventory.cpus:
        each = f", {request['cpus']} for each of {ntasks} tasks" if ntasks > 1 else ""
        raise InputError(f"it asks for {cpus} CPU cores{each}, and there are only {inventory.cpus}", "ask for fewer")
    named = [device for device in inventory.devices if device["index"] in (request.get("gpu_ids") or ())]
    if request.get("gpu_ids") and len(named) < len(request["gpu_ids"]):
        there = ", ".join(str(device["index"]) for device in inventory.devices)
        missing = sorted(set(request["gpu_ids"]) - {device["index"] for device in named})
        raise InputError(f"there is no device {', '.join(map(str, missing))} here", f"there are: {there}")
    if len(kinds := {device["type"] for device in named}) > 1:
        raise InputError(f"these devices are of several types: {', '.join(sorted(kinds))}", "weft nodes lists them")
    if named and request.get("types") and not kinds & set(request["types"]):
        raise InputError(f"these devices are of type {kinds.pop()}", "leave --types away, or name other devices")


def _types(inventory: Inventory) -> list[str]:
    return list(dict.fromkeys(device["type"] for device in inventory.devices))
