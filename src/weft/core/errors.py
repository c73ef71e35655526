"""The errors of the core by their cause; other layers derive their own from these.

WeftError                  carries a hint: what the reader can do now
├── InputError             the user's: a trace, a flag, a file, a job that can never run
├── PlanRejectedError      the policy's: its plan breaks a rule of the ledger
└── IllegalEventError      the driver's: an event that makes no sense in the job's state
"""

from __future__ import annotations


class WeftError(Exception):
    """Something weft can name. `hint` says what to do about it and may be empty."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


class InputError(WeftError):
    """What was asked for cannot be done as written; nothing has been changed."""


class PlanRejectedError(WeftError):
    """The plan breaks an invariant; it was not committed and no state has changed."""


class IllegalEventError(WeftError):
    """The event does not fit the job's state; the ledger refused it and is unchanged."""
