"""Every state a job can be in and every step between two of them. All others are illegal."""

from __future__ import annotations

from enum import StrEnum

from weft.core import commands, events


class State(StrEnum):
    PENDING = "pending"
    HELD = "held"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


PENDING, RUNNING = State.PENDING, State.RUNNING
"""Asked for at every turn; as a name of its own it is found ten times as fast as in the enumeration."""

TERMINAL = frozenset({State.FINISHED, State.FAILED, State.CANCELLED})

TRANSITIONS: dict[tuple[State, type], State] = {
    (State.PENDING, commands.Start): State.RUNNING,
    (State.PENDING, events.Held): State.HELD,
    (State.PENDING, events.Released): State.PENDING,
    (State.PENDING, events.Cancelled): State.CANCELLED,
    (State.PENDING, events.Finished): State.FINISHED,  # it was asked to pause, but had just finished
    (State.PENDING, events.Failed): State.FAILED,
    (State.PENDING, events.Lost): State.PENDING,  # while it was paused
    (State.HELD, events.Held): State.HELD,
    (State.HELD, events.Released): State.PENDING,
    (State.HELD, events.Cancelled): State.CANCELLED,
    (State.HELD, events.Finished): State.FINISHED,
    (State.HELD, events.Failed): State.FAILED,
    (State.HELD, events.Lost): State.HELD,
    (State.RUNNING, commands.Preempt): State.PENDING,
    (State.RUNNING, events.Held): State.HELD,  # its owner pauses it
    (State.RUNNING, events.NodeLost): State.PENDING,
    (State.RUNNING, events.Lost): State.PENDING,
    (State.RUNNING, events.Finished): State.FINISHED,
    (State.RUNNING, events.Failed): State.FAILED,
    (State.RUNNING, events.Cancelled): State.CANCELLED,
}


def table() -> str:
    """The transition table as Markdown, for ARCHITECTURE.md."""
    rows = [f"| {state} | {cause.__name__} | {after} |" for (state, cause), after in TRANSITIONS.items()]
    return "\n".join(["| from | by | to |", "|---|---|---|", *rows])
