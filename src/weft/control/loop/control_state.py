"""The state of the control plane: inputs of users and nodes in; facts, orders and answers out.

It has no clock, no file and no socket. The daemon makes the outcome durable and only then answers and sends; if that
fails, it drops this state and loads a new one from disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.control.loop import reports, requests
from weft.control.loop.dispatch import all_orders, decide
from weft.control.loop.inputs import (
    AttemptReport,
    Cancel,
    ChangePolicy,
    Hold,
    Input,
    InstantOutcome,
    Measurement,
    NodeConnected,
    NodeDevices,
    PauseByOwner,
    ProgressReport,
    Release,
    StopAll,
    Submit,
    Tick,
)
from weft.control.loop.inventory import Inventory, computing
from weft.control.loop.job_record import JobRecord
from weft.control.loop.job_state import JobEnding, JobState
from weft.control.loop.lifecycle import end, hold_stopping
from weft.control.loop.live_jobs import LiveJobs
from weft.control.loop.reports import measured
from weft.control.store.log_store import Fact
from weft.core.errors import WeftError
from weft.core.events import Event, Released, Submitted, Woken
from weft.core.job import Job
from weft.core.reasons import Code
from weft.core.scheduler import Scheduler
from weft.core.serialization import KIND_OF, plain
from weft.core.values import EPSILON_S
from weft.protocol import Synced

TIMED_OUT = "ran past its limit of {0:g} s"
TIMED_OUT_CODE = 124  # as of timeout(1)


@dataclass(frozen=True)
class JobHistory:
    """Queries about jobs that are not live any more."""

    known: Callable[[str], Sequence[tuple[str, str]]]
    """The jobs that an id or an array's number stands for, ended ones too: each with its id and state."""
    number_of: Callable[[str], int | None] = lambda request_id: None
    """The number that an earlier copy of a request was given."""
    rates_hz: Callable[[str], Mapping[str, float]] = lambda name: {}
    """The step rate of the last job of a name, by device type."""


@dataclass
class ControlState:
    """The state between two instants, and the outcome of the one that is being handled."""

    scheduler: Scheduler
    past: JobHistory
    live_jobs: LiveJobs = field(default_factory=LiveJobs)
    inventory: Inventory = field(default_factory=Inventory)
    quotas: Mapping[str, int] = field(default_factory=dict)
    boot_id: str = ""
    """Of the node, at its last hello."""
    startup_s: float = 0.0
    """The time allowed from the launch of an attempt to its first step."""
    is_closing: bool = False
    """After `StopAll`: waiting jobs go on waiting, until the next start."""
    must_tell_all: bool = False
    """The node may have forgotten everything: resend the full desired state."""
    settling: set[tuple[str, int]] = field(default_factory=set)
    """Attempts that had ended at the node's last hello and whose end is not reported yet; before that, all."""
    policy_error: str = ""
    wake_at: float = math.inf
    version: int = 0
    """Rises with every instant, so that views know when to look again."""
    out: InstantOutcome = field(default_factory=InstantOutcome)
    touched: dict[str, None] = field(default_factory=dict)
    """The jobs whose rows have to be written."""

    def handle(self, inputs: Sequence[Input], now: float) -> InstantOutcome:
        """All inputs of one instant, reports of nodes first, then one decision."""
        self.out = out = InstantOutcome(answers=[None] * len(inputs))
        self.touched = {}
        for at in sorted(range(len(inputs)), key=lambda at: not isinstance(inputs[at], AttemptReport)):
            try:
                out.answers[at] = HANDLERS[type(inputs[at])](self, inputs[at], now)
            except WeftError as error:
                out.answers[at] = error
        if all(isinstance(each, ProgressReport) for each in inputs) and not out.facts:
            out.is_quiet = True
            return out
        self._watch_time(now)
        if not self.is_closing:
            reports.block(self, now)
            decide(self, now)
        hold_stopping(self, now)
        if self.must_tell_all:
            out.orders, self.must_tell_all = [*all_orders(self), Synced()], False
        for job_id in self.touched:
            if job_id in self.records:
                job = self.job(job_id)
                spent = {"run_s": job.held_s(now), "wait_s": job.wait_s(now)}
                out.rows[job_id] = self.records[job_id].row(self.job_state(job_id), **spent)
        self.version += 1
        return out

    def _watch_time(self, now: float) -> None:
        if now + EPSILON_S >= self.wake_at:
            self.apply(Woken(), now)
            self.wake_at = math.inf
        for record in list(self.live_jobs.backing_off.values()):
            if record.not_before is not None and now + EPSILON_S >= record.not_before:
                record.not_before = None
                del self.live_jobs.backing_off[record.id]
                self.apply(Released(record.id, Code.BACKING_OFF), now)
        for record, left_s in self._limited(now):
            if record.id in self.records and left_s <= EPSILON_S:
                end(self, record, JobEnding(JobState.FAILED, TIMED_OUT.format(record.limit_s), TIMED_OUT_CODE), now)

    def next_time(self, now: float) -> float:
        """When the next instant is due if nothing arrives."""
        releases = [record.not_before or 0.0 for record in self.live_jobs.backing_off.values()]
        limits = [now + left_s for _, left_s in self._limited(now)]
        return min([self.wake_at, *releases, *limits])

    def _limited(self, now: float) -> list[tuple[JobRecord, float]]:
        """The running jobs with a limit, and the seconds until each reaches it; a guest's time counts in part."""
        running = [(self.records[job.id], job) for job in computing(self.scheduler.ledger)]
        return [
            (record, (record.limit_s - job.held_s(now)) / job.speed)
            for record, job in running
            if record.limit_s is not None and not record.ending
        ]

    # ---- queries

    @property
    def records(self) -> dict[str, JobRecord]:
        return self.live_jobs.records

    @property
    def is_stopping(self) -> bool:
        """A job was told to end, and has not ended yet."""
        return bool(self.live_jobs.stopping)

    def job(self, job_id: str) -> Job:
        """A live job as the ledger knows it."""
        return self.scheduler.ledger.jobs[job_id]

    def job_states(self, wanted: str) -> dict[str, str]:
        """The jobs that an id or an array's number stands for, as they are on disk or have ended in this instant."""
        rows = self.out.rows
        return {job_id: rows[job_id]["state"] if job_id in rows else state for job_id, state in self.past.known(wanted)}

    def job_state(self, job_id: str) -> JobState:
        """Of a live job, as users see it."""
        if self.job(job_id).is_computing:
            return JobState.RUNNING
        return JobState.PAUSED if self.records[job_id].is_alive else JobState.PENDING

    # ---- changes

    def apply(self, event: Event, now: float) -> None:
        """Apply an event to the ledger, and log it."""
        self.scheduler.record([event], now)
        job_id = event.job.id if isinstance(event, Submitted) else getattr(event, "job_id", None)
        self.note(KIND_OF[type(event)], job_id, plain(event))

    def note(self, kind: str, job_id: str | None, body: dict[str, Any]) -> None:
        """Add a row to the log."""
        self.out.facts.append(Fact(kind, job_id, body))
        if job_id is not None:
            self.touched[job_id] = None


def tick(control: ControlState, asked: Tick, now: float) -> None:
    """Due times are checked in every instant, so there is nothing else to do."""


HANDLERS: dict[type, Callable[[ControlState, Any, float], Any]] = {
    Submit: requests.submit,
    Cancel: requests.cancel,
    Hold: requests.hold,
    PauseByOwner: requests.pause,
    Release: requests.release,
    ChangePolicy: requests.change_policy,
    StopAll: requests.stop_all,
    NodeConnected: reports.hello,
    NodeDevices: reports.devices,
    AttemptReport: reports.report,
    ProgressReport: reports.progress,
    Measurement: measured,
    Tick: tick,
}
