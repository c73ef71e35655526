"""Jobs and nodes as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from weft.control.loop.control_state import ControlState
from weft.control.loop.inventory import neighbours_by_job, place_of
from weft.control.loop.job_record import DeviceMemory, JobRecord, declared_bytes, memory_of
from weft.control.loop.job_state import JobState, Loss
from weft.control.loop.reports import interference_ratio
from weft.core.bounds import cpus_left
from weft.core.job import Job
from weft.core.policy_base import Positions, SortedPositions
from weft.core.reasons import Code, Reason
from weft.core.text import duration_text
from weft.core.value import value
from weft.system.home import Home

Json = dict[str, Any]
EXPLAINED = 20
"""Only so many jobs at the front of the queue have an exact reason; those behind them wait for these."""


@value
class JobView:
    """A live job at one instant: what can be read of it without the writer."""

    id: str
    array_index: int | None
    request: Mapping[str, Any]
    state: JobState
    reason: str
    attempt: int
    devices: tuple[str, ...]
    submitted_at: float
    started_at: float | None
    steps: int
    step_rate_hz: float | None
    position: int | None
    metrics: Mapping[str, float | None]
    eta_s: float | None
    run_s: float
    wait_s: float
    preemptions: int
    unseats: int
    losses: int
    loss: Loss | None
    guaranteed: bool
    guest: bool
    beside: list[str]
    lane: int | None
    interference_ratio: float | None
    pids: tuple[int, ...]
    host_bytes: int
    memory: DeviceMemory


class Views:
    """What is asked for often is computed once for each instant."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._seen: tuple[ControlState, int] | None = None
        self._now = 0.0
        self._positions: Positions = SortedPositions(())
        self._reasons: dict[str, str] = {}
        self._neighbours: dict[str, list[str]] = {}

    def live(self, control: ControlState, record: JobRecord, now: float) -> Json:
        return self.shown(self.seen(control, record, now))

    def seen(self, control: ControlState, record: JobRecord, now: float) -> JobView:
        """A live job as it is now, copied: `shown` makes JSON of it when the writer has gone on."""
        self._look(control, now)
        job = control.scheduler.ledger.jobs[record.id]
        state = control.job_state(record.id)
        beside = self._neighbours.get(record.id, [])
        return JobView(
            record.id,
            record.array_index,
            record.request,
            state,
            "" if job.seating and not job.is_starting(now) else self.reason(control, record.id, now),
            record.attempt,
            record.devices if state is JobState.RUNNING else (),
            record.submitted_at,
            record.started_at,
            record.steps,
            record.step_rate_hz,
            self._positions.of(job),
            record.metrics,
            eta_s(record),
            job.held_s(now),
            job.wait_s(now),
            record.preemptions,
            record.unseats,
            record.losses,
            record.present_loss,
            control.scheduler.is_guaranteed(job),
            job.seating is not None,
            beside,
            place_of(job).lane or None,
            interference_ratio(job, beside),
            record.pids,
            record.host_bytes,
            record.memory,
        )

    def shown(self, seen: JobView) -> Json:
        return {
            **described(seen.id, seen.request, self._home),
            "array_index": seen.array_index,
            "state": seen.state,
            "reason": seen.reason,
            "exit_code": None,
            "attempt": seen.attempt,
            "devices": list(seen.devices),
            "submitted_at": iso(seen.submitted_at),
            "started_at": iso(seen.started_at),
            "finished_at": None,
            "steps": seen.steps,
            "step_rate_hz": seen.step_rate_hz,
            "position": seen.position,
            "metrics": dict(seen.metrics),
            "eta_s": seen.eta_s,
            "run_s": round(seen.run_s, 3),
            "wait_s": round(seen.wait_s, 3),
            "preemptions": seen.preemptions,
            "unseats": seen.unseats,
            "losses": seen.losses,
            "loss": loss_json(seen.loss),
            "guaranteed": seen.guaranteed,
            "guest": seen.guest,
            "beside": seen.beside,
            "lane": seen.lane,
            "interference_ratio": seen.interference_ratio,
            "pids": list(seen.pids),
            "host_bytes": seen.host_bytes,
            "memory": memory_json(seen.memory, seen.request),
        }

    def ended(self, row: Mapping[str, Any]) -> Json:
        request = json.loads(row["request"])
        return {
            **described(row["id"], request, self._home),
            "array_index": row["array_index"],
            "state": row["state"],
            "reason": row["reason"],
            "exit_code": row["exit_code"],
            "attempt": row["attempt"],
            "devices": [],
            "submitted_at": iso(row["submitted_at"]),
            "started_at": iso(row["started_at"]),
            "finished_at": iso(row["finished_at"]),
            "steps": row["steps"],
            "step_rate_hz": row["step_rate_hz"],
            "position": None,
            "metrics": {},
            "eta_s": None,
            "run_s": round(row["run_s"], 3),
            "wait_s": round(row["wait_s"], 3),
            "preemptions": row["preemptions"],
            "unseats": row["unseats"],
            "losses": row["losses"],
            "loss": None,
            "guaranteed": False,
            "guest": False,
            "beside": [],
            "lane": None,
            "interference_ratio": None,
            "pids": [],
            "host_bytes": 0,
            "memory": memory_json(memory_of(row), request),
        }

    def reason(self, control: ControlState, job_id: str, now: float) -> str:
        """Why it does not run; what is odd about one that does."""
        self._look(control, now)
        if job_id not in self._reasons:
            self._reasons[job_id] = self._reason(control, job_id, now)
        return self._reasons[job_id]

    def beside(self, control: ControlState, job_id: str, now: float) -> list[str]:
        """The other jobs that compute on its devices."""
        self._look(control, now)
        return self._neighbours.get(job_id, [])

    def position(self, control: ControlState, job_id: str, now: float) -> int | None:
        """In the queue, counted from 1; None if it does not wait there."""
        self._look(control, now)
        return self._positions.of(control.job(job_id))

    def front(self, control: ControlState, count: int, now: float) -> list[Job]:
        """The waiting jobs that go first."""
        self._look(control, now)
        return self._positions.front(count)

    def _reason(self, control: ControlState, job_id: str, now: float) -> str:
        ending = control.records[job_id].ending
        if ending is not None:
            return str(Reason(Code.ENDING, (ending.reason,)))
        if not control.inventory.devices:
            return "no node is there yet"
        job = control.job(job_id)
        if job.is_starting(self._now) and self._now < job.startup_kept_until_s:
            return str(Reason(Code.STARTING_UP, (duration_text(job.startup_kept_until_s - self._now),)))
        position = self._positions.of(control.job(job_id)) or 0
        if position > EXPLAINED:
            return str(Reason(Code.IN_LINE, (position - 1,)))
        try:
            reason = control.scheduler.reason(job_id, self._now)
            return "" if reason is None else in_words(reason)
        except Exception as error:  # noqa: BLE001 - a policy may be the user's own
            return f"its policy cannot say why: {type(error).__name__}: {error}"

    def _look(self, control: ControlState, now: float) -> None:
        if self._seen != (control, control.version):
            try:
                self._positions = control.scheduler.positions(now)
            except Exception:  # noqa: BLE001 - a policy may be the user's own; then it is by arrival
                waiting = [job for job in control.scheduler.ledger.jobs.values() if job.is_waiting]
                self._positions = SortedPositions(waiting)
            self._reasons = {}
            self._neighbours = neighbours_by_job(control.scheduler.ledger)
            self._now = now
            self._seen = (control, control.version)


def nodes_json(control: ControlState, is_up: bool) -> list[Json]:
    """The machines, with the jobs on each device."""
    if not control.inventory.devices:
        return []
    holders: dict[str, list[JobRecord]] = {}
    for record in control.live_jobs.alive_after():
        if control.job_state(record.id) is JobState.RUNNING:
            for name in record.devices:
                holders.setdefault(name, []).append(record)
    devices: list[Json] = []
    for device in control.inventory.devices:
        here = holders.get(control.inventory.name(device), [])
        state = "busy" if here else "unmanaged" if device.get("blocked_by") else "free"
        used_bytes = sum(record.memory.on_device_bytes // len(record.devices) for record in here)
        jobs = {
            "jobs": [record.id for record in here],
            "guests": [job.id for job in here if control.job(job.id).seating],
        }
        devices.append({**device, "state": state, **jobs, "used_bytes": used_bytes})
    cpus, left = control.inventory.cpus, cpus_left(control.scheduler.ledger).get(control.inventory.machine)
    used = None if cpus is None else cpus - left if left is not None else 0
    state = "up" if is_up else "away"
    return [
        {"name": control.inventory.machine, "state": state, "cpus": cpus, "cpus_declared": used, "devices": devices}
    ]


def in_words(reason: Reason) -> str:
    """With times as wall-clock time."""
    if reason.code is Code.BEGINS_AT:
        at = datetime.fromtimestamp(float(reason.details[0])).astimezone()
        return f"begins at {at:%Y-%m-%d %H:%M:%S}"
    return str(reason)


def eta_s(record: JobRecord) -> float | None:
    """Until its end, if it said how many steps it takes."""
    wanted = record.request.get("steps")
    if not wanted or not record.step_rate_hz:
        return None
    return round(max(0.0, float(wanted) - record.steps) / record.step_rate_hz, 1)


def loss_json(loss: Loss | None) -> Json | None:
    if loss is None:
        return None
    return {"attempt": loss.attempt, "at": iso(loss.at), "message": loss.message, "step": loss.step}


def iso(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def described(job_id: str, request: Mapping[str, Any], home: Home) -> Json:
    return {
        "id": job_id,
        "name": request["name"],
        "tenant": request["tenant"],
        "class": request["class"],
        "command": request["command"],
        "cwd": request["cwd"],
        "gpus": request["gpus"],
        "ntasks": request["ntasks"],
        "array": request.get("array"),
        "after": request.get("after") or [],
        "retries": request.get("retries", 0),
        "time_s": request.get("time_s"),
        "declared_steps": request.get("steps"),
        "split": request.get("split", False),
        "stdin": request.get("stdin", False),
        "tty": bool(request.get("tty")),
        "share": request.get("share", True),
        "migrate": request.get("migrate", True),
        "weight": request.get("weight", 1.0),
        "priority": request.get("priority") or 0,
        "cpus": request.get("cpus"),
        "gpu_ids": request.get("gpu_ids"),
        "begin_at": iso(request.get("begin_at")),
        "output": request.get("output"),
        "log": str(home.log(job_id, 0)),
    }


def memory_json(memory: DeviceMemory, request: Mapping[str, Any]) -> dict[str, int | None]:
    """Device memory as JSON; null is unknown."""
    measured = {name: size if memory.peak_bytes else None for name, size in memory.plain().items()}
    return {**measured, "limit_bytes": declared_bytes(request)}
