"""The states of a job as people see them."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """As people see it."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


IN_WORDS = {State.SUCCEEDED: "has succeeded", State.FAILED: "has failed", State.CANCELLED: "was cancelled"}
"""How a job came to its end."""
