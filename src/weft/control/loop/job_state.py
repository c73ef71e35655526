"""The states of a job, how it ends, when it is retried, and dependencies on how other jobs end.

A dependency is written `17` or `afterok:17` (17 has succeeded), `afterany:17` (17 is over) or `afternotok:17` (17 has
failed or was cancelled). The number of an array stands for all its elements: afterok waits for all to succeed, afterany
for all to be over, afternotok for all to be over and one of them at least not to have succeeded. A job whose
dependencies cannot be met any more is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from signal import Signals
from typing import TYPE_CHECKING

from weft.core.errors import InputError
from weft.core.reasons import Code, Reason
from weft.core.value import value

if TYPE_CHECKING:
    from weft.control.loop.job_record import JobRecord

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 300.0
MOST_LOSSES = 5
"""A job that is lost more often fails: it may be what kills its shepherd."""
MOST_LISTED = 20


class JobState(StrEnum):
    """As users see it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


IN_WORDS = {JobState.SUCCEEDED: "has succeeded", JobState.FAILED: "has failed", JobState.CANCELLED: "was cancelled"}
"""End states as a predicate."""


@value
class JobEnding:
    """How a job ends; `retry_in_s` is None if it is over."""

    state: JobState
    reason: str = ""
    exit_code: int | None = None
    retry_in_s: float | None = None


@value
class Loss:
    """A lost attempt, whose end is unknown: its processes were killed together with weft's, or the machine failed."""

    attempt: int
    at: float
    message: str
    step: int
    """Where the next attempt begins: at its last checkpoint; 0 is the beginning."""

    def in_words(self) -> str:
        why = f": {self.message}" if self.message else ""
        begins = f"at step {self.step:,}, with its last checkpoint" if self.step else "from the beginning"
        return f"attempt {self.attempt} was lost{why}; the next one begins {begins}"


def ending_of(
    record: JobRecord, what: str, exit_code: int | None, message: str, *, was_with_weft: bool = False
) -> JobEnding:
    """`was_with_weft`: it was lost together with the coordinator. The first time that is not held
    against the job: it keeps its place in the queue, and is retried at once.
    """
    message = message.encode(errors="backslashreplace").decode()  # it may contain file names that are not valid text
    if what == "lost":
        reason = f"was lost: {message}" if message else "was lost"
        may_retry = record.request.get("requeue", True) and record.losses < MOST_LOSSES
        wait_s = 0.0 if was_with_weft and not record.losses else _back_off_s(record.losses)
        return JobEnding(JobState.FAILED, reason, None, wait_s if may_retry else None)
    if what == "refused":  # its order cannot be sent or carried out, and would not be the next time
        return JobEnding(JobState.FAILED, f"cannot be started: {message}")
    if exit_code == 0:
        return JobEnding(JobState.SUCCEEDED, "", 0)
    reason = message or _in_words(exit_code)
    may_retry = record.failures < record.request.get("retries", 0)
    return JobEnding(JobState.FAILED, reason, exit_code, _back_off_s(record.failures) if may_retry else None)


def _back_off_s(times: int) -> float:
    """Exponential, so that a job that fails at once does not keep the machine busy."""
    return float(min(FIRST_WAIT_S * 2**times, LONGEST_WAIT_S))


def _in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended with no exit code"
    if exit_code <= 128:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by signal {exit_code - 128} ({Signals(exit_code - 128).name})"
    except ValueError:  # no signal: an exit code of the program's own
        return f"ended with exit code {exit_code}"


class DependencyKind(StrEnum):
    """How another job must have ended."""

    OK = "afterok"
    ANY = "afterany"
    NOT_OK = "afternotok"


WANTED = {DependencyKind.OK: "has succeeded", DependencyKind.ANY: "is over", DependencyKind.NOT_OK: "has failed"}

States = Callable[[str], Mapping[str, str]]
"""The jobs that an id or an array's number stands for, each with its state: an end state or not."""


@dataclass(slots=True)
class Awaited:
    """The dependencies of a job or an array, as written, and the live jobs that it still waits for."""

    terms: Mapping[str, DependencyKind] = field(default_factory=dict)
    live: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.live)

    def names(self, job_id: str, number: int) -> list[tuple[str, DependencyKind]]:
        """The dependencies that this ended job is part of."""
        return [(each, self.terms[each]) for each in dict.fromkeys((job_id, str(number))) if each in self.terms]


NONE_AWAITED = Awaited()
"""Shared by all jobs without dependencies, and never changed."""


def terms_of(after: Iterable[str]) -> dict[str, DependencyKind]:
    """Of each job or array, how it must have ended. Asked for twice, both must hold."""
    terms: dict[str, DependencyKind] = {}
    for each in after:
        kind, colon, job_id = each.rpartition(":")
        wanted = DependencyKind(kind) if colon else DependencyKind.OK
        before = terms.get(job_id, DependencyKind.ANY)
        if {before, wanted} == {DependencyKind.OK, DependencyKind.NOT_OK}:
            raise InputError(f"it is to start if {job_id} succeeds and if it fails", "afterany: whenever it is over")
        terms[job_id] = before if wanted is DependencyKind.ANY else wanted
    return terms


def hopeless(term: str, wanted: DependencyKind, job_id: str, state: JobState, states: States) -> str:
    """Why a dependency cannot be met now that a job of it has ended so; empty if it can."""
    if wanted is DependencyKind.OK and state is not JobState.SUCCEEDED:
        return f"job {job_id}, which it comes after, {IN_WORDS[state]}"
    if wanted is DependencyKind.NOT_OK and state is JobState.SUCCEEDED:
        ended = {each: how for each, how in states(term).items() if each != job_id}
        if all(how == JobState.SUCCEEDED for how in ended.values()):
            what = f"job {job_id}" if term == job_id else f"all of array {term}"
            return f"{what}, whose failure it waits for, {IN_WORDS[state]}"
    return ""


def hold_for(awaited: Awaited) -> Reason:
    """The reason to show while it waits."""
    by_outcome: dict[DependencyKind, list[str]] = {}
    for term, wanted in awaited.terms.items():
        if any(each == term or each.startswith(f"{term}_") for each in awaited.live):
            by_outcome.setdefault(wanted, []).append(term)
    if by_outcome.keys() == {DependencyKind.OK}:
        return Reason(Code.COMES_AFTER, (_listed(sorted(awaited.live)),))
    told = [f"{_listed(sorted(terms))} {WANTED[wanted]}" for wanted, terms in by_outcome.items()]
    return Reason(Code.DEPENDS, (" and ".join(told),))


def _listed(ids: list[str]) -> str:
    """Shortened: each job of an array may come after thousands."""
    more = len(ids) - MOST_LISTED
    return ", ".join(ids[:MOST_LISTED]) + (f" and {more:,} more" if more > 0 else "")
