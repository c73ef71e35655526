"""What becomes of a job whose attempt is gone: over, or tried again after a while."""

from __future__ import annotations

from signal import Signals

from weft.control.record import Ending, Record, State

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 300.0
MOST_LOSSES = 5
"""A job that is lost more often than this ends so: it may be what kills its shepherd."""


def ending_of(record: Record, what: str, exit_code: int | None, message: str, *, was_with_weft: bool = False) -> Ending:
    """`was_with_weft`: it was lost together with the coordinator. The first time that is not the job's doing, and its
    place in the queue is kept: it is tried again at once.
    """
    message = message.encode(errors="backslashreplace").decode()  # it may name files whose names are no text
    if what == "lost":
        reason = f"was lost: {message}" if message else "was lost"
        may_retry = record.request.get("requeue", True) and record.losses < MOST_LOSSES
        wait_s = 0.0 if was_with_weft and not record.losses else _back_off_s(record.losses)
        return Ending(State.FAILED, reason, None, wait_s if may_retry else None)
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
    if exit_code <= 128:
        return f"ended with exit code {exit_code}"
    try:
        return f"was ended by signal {exit_code - 128} ({Signals(exit_code - 128).name})"
    except ValueError:  # its own exit code, by which it means something else
        return f"ended with exit code {exit_code}"
