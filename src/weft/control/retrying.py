"""What becomes of a job whose attempt is gone: over, or tried again after a while."""

from __future__ import annotations

from weft.control.record import Ending, Record, State

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 300.0
MOST_LOSSES = 5
"""A job that is lost more often than this ends so: it may be what kills its shepherd."""


def ending_of(record: Record, what: str, exit_code: int | None, message: str) -> Ending:
    message = message.encode(errors="backslashreplace").decode()  # it may name files whose names are no text
    if what == "lost":
        reason = f"was lost: {message}" if message else "was lost"
        may_retry = record.request.get("requeue", True) and record.losses < MOST_LOSSES
        return Ending(State.FAILED, reason, None, _back_off_s(record.losses) if may_retry else None)
    if what == "refused":  # its order cannot be sent or carried out, and would not be the next time
        return Ending(State.FAILED, f"cannot be started: {message}")
    if exit_code == 0:
        return Ending(State.SUCCEEDED, "", 0)
    reason = message or _in_words(exit_code)
    may_retry = record.failures < record.request.get("retries", 0)
    return Ending(State.FAILED, reason, exit_code, _back_off_s(record.failures) if may_retry else None)


def _back_off_s(times: int) -> float:
    """Twice as long each time, so that what fails at once does not keep the machine busy."""
    return float(min(FIRST_WAIT_S * 2**times, LONGEST_WAIT_S))


def _in_words(exit_code: int | None) -> str:
    if exit_code is None:
        return "ended with no exit code"
    return f"was ended by signal {exit_code - 128}" if exit_code > 128 else f"ended with exit code {exit_code}"
