"""A live job as the control plane knows it, beside what the ledger knows."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from weft.control.loop.job_state import NONE_AWAITED, Awaited, JobEnding, JobState, Loss
from weft.core.value import value
from weft.core.values import JobClass, JobSpec

Key = tuple[int, int]
"""The order of listings: by submission, elements of an array by index."""
FIRST: Key = (0, -2)
"""Before every key."""
MOST_COUNTED = 2**53


def key_of(number: int, array_index: int | None) -> Key:
    return number, -1 if array_index is None else array_index


NO_METRICS: Mapping[str, float | None] = {}
"""Shared by all jobs that have none, which may be many; it is never changed."""


@value
class DeviceMemory:
    """Device memory as the native library measures it; all 0 until measured, and always 0 without the library."""

    persistent_bytes: int = 0
    """What outlived the last step: the model, the optimizer's state."""
    ephemeral_bytes: int = 0
    """The most that a step used in addition."""
    overflow_bytes: int = 0
    """The part that did not fit and is in the next tier."""
    peak_bytes: int = 0
    """The most that was on the devices at once, in any attempt."""

    @property
    def needs_bytes(self) -> int | None:
        return self.persistent_bytes + self.ephemeral_bytes or None

    @property
    def on_device_bytes(self) -> int:
        """While it runs."""
        return max(0, self.persistent_bytes + self.ephemeral_bytes - self.overflow_bytes)

    def after(self, progress: Mapping[str, Any]) -> DeviceMemory:
        """Updated with a progress report. An attempt with no measurement yet changes nothing."""
        told = memory_of(progress)
        if not told.peak_bytes:
            return self
        peak_bytes = max(self.peak_bytes, told.peak_bytes)
        return DeviceMemory(told.persistent_bytes, told.ephemeral_bytes, told.overflow_bytes, peak_bytes)

    def plain(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in NAMES}


NOT_MEASURED = DeviceMemory()


NAMES = tuple(field.name for field in fields(DeviceMemory))


def memory_of(said: Mapping[str, Any]) -> DeviceMemory:
    """From a progress report, or from a job's row."""
    sizes = [sane(said.get(name)) for name in NAMES]
    return DeviceMemory(*sizes) if any(sizes) else NOT_MEASURED


def declared_bytes(request: Mapping[str, Any]) -> int | None:
    """The device memory that all tasks of a job together may use, if it said so."""
    each_bytes = request.get("gpu_mem_bytes")
    return each_bytes * request["ntasks"] if each_bytes else None


def sane(count: Any) -> int:
    """A count from a page, which a job may have written over."""
    return min(int(count or 0), MOST_COUNTED)


@dataclass(slots=True)
class JobRecord:
    """Its one writer is the control state."""

    id: str
    number: int
    array_index: int | None
    request: Mapping[str, Any]
    environment: int
    submitted_at: float
    attempt: int = 0
    is_alive: bool = False
    """An attempt was ordered, and the node has not reported its end."""
    ending: JobEnding | None = None
    """Set when it is told to stop: how it will end once the node reports that its processes are gone."""
    failures: int = 0
    losses: int = 0
    loss: Loss | None = None
    """The last of them."""
    preemptions: int = 0
    unseats: int = 0
    """How often it had to leave a seat. It held no devices there, so that is no preemption."""
    started_at: float | None = None
    not_before: float | None = None
    devices: tuple[str, ...] = ()
    lane_base: int = 0
    lane_weight: int = 1
    """Its share of turns, if it is in a lane."""
    granted_at: float = 0.0
    attempt_started_at: float | None = None
    awaits: Awaited = field(default_factory=lambda: NONE_AWAITED)
    """Jobs that must have ended first; elements of an array share it."""
    steps: int = 0
    step_rate_hz: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=lambda: NO_METRICS)
    """As last reported; None where the value was no number, like a diverged loss."""
    host_bytes: int = 0
    memory: DeviceMemory = NOT_MEASURED
    """On its devices, as last measured."""
    pids: tuple[int, ...] = ()

    @property
    def key(self) -> Key:
        return key_of(self.number, self.array_index)

    @property
    def name(self) -> str:
        name: str = self.request["name"]
        return name

    @property
    def array_limit(self) -> int | None:
        limit: int | None = self.request.get("array_limit")
        return limit

    @property
    def limit_s(self) -> float | None:
        limit_s: float | None = self.request.get("time_s")
        return limit_s

    @property
    def needs_bytes(self) -> int | None:
        """The device memory that it declared or, if it did not, was measured to need; None if neither is known."""
        return declared_bytes(self.request) or self.memory.needs_bytes

    def note(self, progress: Mapping[str, Any]) -> None:
        """Take over a progress report. An attempt that has not begun reports nothing."""
        self.steps = sane(progress.get("step")) or self.steps
        self.step_rate_hz = progress.get("step_rate_hz") or self.step_rate_hz
        told: Mapping[str, float | None] = progress.get("metrics") or self.metrics
        self.metrics = {
            name: value if value is not None and math.isfinite(value) else None for name, value in told.items()
        }
        self.host_bytes = sane(progress.get("host_bytes"))
        self.learn(progress)

    def begin_again(self, step: int) -> None:
        """Reset progress for the next attempt, which begins at this step."""
        self.steps, self.step_rate_hz, self.metrics, self.host_bytes = step, None, NO_METRICS, 0

    @property
    def present_loss(self) -> Loss | None:
        """The loss that the present or next attempt follows."""
        return self.loss if self.loss and self.attempt - self.loss.attempt <= int(self.is_alive) else None

    def learn(self, progress: Mapping[str, Any]) -> None:
        """Keep the measured device memory: the next attempt will need as much."""
        self.memory = self.memory.after(progress)

    def row(self, state: JobState, **changed: Any) -> dict[str, Any]:
        """As a row of the table."""
        return {
            "id": self.id,
            "number": self.number,
            "array_index": self.array_index,
            "name": self.name,
            "tenant": self.request["tenant"],
            "class": self.request["class"],
            "state": state,
            "reason": "",
            "exit_code": None,
            "attempt": self.attempt,
            "is_alive": int(self.is_alive),
            "failures": self.failures,
            "losses": self.losses,
            "preemptions": self.preemptions,
            "unseats": self.unseats,
            "submitted_at": self.submitted_at,
            "started_at": self.started_at,
            "finished_at": None,
            "not_before": self.not_before,
            "ending": _plain_ending(self.ending),
            "run_s": 0.0,
            "wait_s": 0.0,
            "steps": self.steps,
            "step_rate_hz": self.step_rate_hz,
            **self.memory.plain(),
            "request": json.dumps(self.request),
            "environment": self.environment,
            **changed,
        }

    def attempt_row(self, **changed: Any) -> dict[str, Any]:
        return {
            "job": self.id,
            "attempt": self.attempt,
            "devices": json.dumps(self.devices),
            "lane_base": self.lane_base,
            "lane_weight": self.lane_weight,
            "granted_at": self.granted_at,
            "started_at": self.attempt_started_at,
            "ended_at": None,
            "outcome": None,
            "exit_code": None,
            **changed,
        }


COLUMNS = (
    "id", "number", "array_index", "request", "environment", "submitted_at", "attempt", "is_alive",
    "failures", "losses", "preemptions", "unseats", "started_at", "not_before", "ending", "steps", "step_rate_hz",
    "persistent_bytes", "ephemeral_bytes", "overflow_bytes", "peak_bytes",
)  # fmt: skip
"""Of a live job's row, in the order of the query live_jobs."""


def record_of(
    row: Sequence[Any], attempt: Mapping[str, Any] | None, parse: Callable[[str], Mapping[str, Any]] = json.loads
) -> JobRecord:
    """A live job from its row, as the query live_jobs has it, and from that of the attempt that lives."""
    job_id, number, array_index, request, environment, submitted_at, attempts, is_alive, *rest = row
    record = JobRecord(job_id, number, array_index, parse(request), environment, submitted_at, attempts, bool(is_alive))
    if any(rest):  # otherwise it has only waited
        record.failures, record.losses, record.preemptions, record.unseats, record.started_at, *rest = rest
        record.not_before, ending, record.steps, record.step_rate_hz, *sizes = rest
        record.ending = _ending(ending)
        record.memory = DeviceMemory(*sizes) if any(sizes) else NOT_MEASURED
    if attempt is not None:
        record.devices = tuple(json.loads(attempt["devices"]))
        record.lane_base, record.lane_weight = attempt["lane_base"], attempt["lane_weight"]
        record.granted_at, record.attempt_started_at = attempt["granted_at"], attempt["started_at"]
    return record


def _plain_ending(ending: JobEnding | None) -> str | None:
    return json.dumps([ending.state, ending.reason, ending.exit_code]) if ending else None


def _ending(plain: str | None) -> JobEnding | None:
    if plain is None:
        return None
    state, reason, *exit_code = json.loads(plain)  # an older log has no exit code there
    return JobEnding(JobState(state), reason, *exit_code)


def spec_for(job_id: str, request: Mapping[str, Any], rate_hz: Mapping[str, float]) -> JobSpec:
    """For the scheduler. Steps without a known rate would be taken for seconds, so they are left out."""
    return JobSpec(
        id=job_id,
        gang_size=request["gpus"],
        tenant=request["tenant"],
        job_class=JobClass(request["class"]),
        device_types=frozenset(request["types"]) if request.get("types") else None,
        declared_steps=request.get("steps") if rate_hz else None,
        step_rate_hz=rate_hz if request.get("steps") else {},
        memory_bytes=declared_bytes(request),
        may_share=request.get("share", True),
        may_migrate=request.get("migrate", True),
        weight=request.get("weight", 1.0),
        priority=request.get("priority") or 0,
        cpus=(request.get("cpus") or 0) * request.get("ntasks", 1),
        device_ids=frozenset(request.get("gpu_ids") or ()),
        begin_s=request.get("begin_at"),
        model=request["name"],
    )
