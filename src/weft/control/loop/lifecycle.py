"""The end of attempts and of jobs: told to stop, over, lost or retried, and what dependent jobs do then."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from weft.control.loop.dispatch import launch
from weft.control.loop.inputs import AttemptReport
from weft.control.loop.job_record import JobRecord
from weft.control.loop.job_state import JobEnding, JobState, Loss, ending_of, hopeless
from weft.control.store.log_store import ENDED, STOPPING
from weft.core.events import Cancelled, Failed, Finished, Held, Lost, Progressed, Released
from weft.core.reasons import Code, Reason
from weft.protocol import StopOrder

if TYPE_CHECKING:
    from weft.control.loop.control_state import ControlState

DEPENDENCIES = {Code.COMES_AFTER, Code.DEPENDS}
"""The codes of holds for dependencies."""


def end(control: ControlState, record: JobRecord, ending: JobEnding, now: float) -> None:
    """End a job, and all jobs whose dependency on it can no longer be met.

    A job with live processes is told to stop, and is over when they are gone.
    """
    over = deque([(record, ending)])
    while over:
        one, how = over.popleft()
        if one.is_alive:
            _stop(control, one, how, now)
        elif one.id in control.records:
            _end_one(control, one, how, now)
            over += _tell_dependents(control, one, how, now)


def hold_stopping(control: ControlState, now: float) -> None:
    """A stopping job is not started again, if it was paused or has just been preempted."""
    for record in control.live_jobs.stopping.values():
        job = control.job(record.id)
        if not job.is_running and record.ending and Code.ENDING not in job.held_for:
            control.apply(Held(record.id, Reason(Code.ENDING, (record.ending.reason,))), now)


def _stop(control: ControlState, record: JobRecord, ending: JobEnding, now: float) -> None:
    """It will end this way once its processes are gone; until then it keeps its devices."""
    if record.ending is None:
        record.ending = ending
        control.live_jobs.stopping[record.id] = record
        control.note(STOPPING, record.id, {"state": ending.state, "reason": ending.reason})
        control.out.orders.append(StopOrder(record.id, record.attempt, control.job(record.id).generation))
        hold_stopping(control, now)


def _end_one(control: ControlState, record: JobRecord, ending: JobEnding, now: float) -> None:
    job = control.job(record.id)
    spent = {"run_s": job.held_s(now), "wait_s": job.wait_s(now)}
    if ending.state is JobState.CANCELLED:
        control.apply(Cancelled(record.id), now)
    else:
        kind = Finished if ending.state is JobState.SUCCEEDED else Failed
        control.apply(kind(record.id, job.generation), now)
    control.live_jobs.remove(record)
    control.out.rows[record.id] = record.row(
        ending.state, reason=ending.reason, exit_code=ending.exit_code, finished_at=now, **spent
    )
    control.note(ENDED, record.id, {"state": ending.state, "reason": ending.reason})
    if record.array_limit is not None and Code.ARRAY_LIMIT not in job.held_for:
        _let_in_next(control, record.number, now)


def _let_in_next(control: ControlState, number: int, now: float) -> None:
    """Release the next element of an array whose limit on running elements has room again."""
    elements = control.live_jobs.arrays.get(number, ())
    following = next((one for one in elements if Code.ARRAY_LIMIT in control.job(one).held_for), None)
    if following is not None:
        control.apply(Released(following, Code.ARRAY_LIMIT), now)


def _tell_dependents(
    control: ControlState, record: JobRecord, ending: JobEnding, now: float
) -> list[tuple[JobRecord, JobEnding]]:
    """Release jobs that only waited for this one; returns those that can never start now."""
    never = []
    for number in sorted(control.live_jobs.dependents.pop(record.id, ())):
        dependents = control.live_jobs.of_number(number)
        if not dependents:
            continue
        awaited = dependents[0].awaits  # the same for all of them
        awaited.live.discard(record.id)
        names = awaited.names(record.id, record.number)
        found = (hopeless(term, wanted, record.id, ending.state, control.job_states) for term, wanted in names)
        why = next((each for each in found if each), "")
        if why:
            never += [(dependent, JobEnding(JobState.CANCELLED, why)) for dependent in dependents]
        elif not awaited:
            for dependent in dependents:
                for code in control.job(dependent.id).held_for & DEPENDENCIES:
                    control.apply(Released(dependent.id, code), now)
    return never


def never_began(control: ControlState, record: JobRecord, now: float) -> None:
    """The order to run it never reached the node: that is no loss."""
    attempt_gone(control, record, "lost", None, now)
    if control.job(record.id).is_computing:
        launch(control, record, now)


def attempt_ended(control: ControlState, record: JobRecord, report: AttemptReport, now: float) -> None:
    exit_code = report.body.get("exit_code")
    record.note(report.body.get("progress") or {})
    if report.what == "ended":  # it was over before its start was reported
        record.started_at = record.started_at or record.granted_at
    attempt_gone(control, record, "lost" if report.what == "refused" else report.what, exit_code, now)
    message, was_with_weft = str(report.body.get("message", "")), report.body.get("unseen") is True
    ending = record.ending or ending_of(record, report.what, exit_code, message, was_with_weft=was_with_weft)
    if ending.retry_in_s is None:
        end(control, record, ending, now)
    else:
        record.failures += report.what == "ended"
        step = int(report.body.get("checkpoint_step", 0))
        if report.what == "lost":
            record.losses += 1
            record.loss = Loss(record.attempt, now, message, step)
            control.live_jobs.lost[record.id] = record
        _try_again(control, record, ending, ending.retry_in_s, step, now)


def _try_again(control: ControlState, record: JobRecord, ending: JobEnding, in_s: float, step: int, now: float) -> None:
    """Retry: the next attempt begins at this step, and so do the steps that are shown and accounted."""
    record.begin_again(step)
    control.apply(Lost(record.id, control.job(record.id).generation), now)
    if record.request.get("steps"):
        control.apply(Progressed(record.id, control.job(record.id).generation, float(step)), now)
    if in_s:
        control.apply(Held(record.id, Reason(Code.BACKING_OFF, (record.attempt, ending.reason, f"{in_s:g}"))), now)
        record.not_before = now + in_s
        control.live_jobs.backing_off[record.id] = record


def attempt_gone(control: ControlState, record: JobRecord, outcome: str, exit_code: int | None, now: float) -> None:
    record.is_alive, record.pids = False, ()
    control.live_jobs.alive.pop(record.id, None)
    row = record.attempt_row(ended_at=now, outcome=outcome, exit_code=exit_code)
    control.out.attempts[record.id, record.attempt] = row
