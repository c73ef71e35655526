"""What happened, in the past tense. Drivers make events; only the ledger records them.

A lease is what a job holds from one Start to the next; its generation counts from 1. A word of an older one is late and
is dropped.
"""

from __future__ import annotations

from weft.core.reasons import Code, Reason
from weft.core.value import value
from weft.core.values import JobSpec, Node


@value
class Submitted:
    job: JobSpec


@value
class Finished:
    """The job came to a good end."""

    job_id: str
    generation: int


@value
class Failed:
    """The job came to a bad end."""

    job_id: str
    generation: int


@value
class Progressed:
    """The driver measured how far the job has come; replaces what the ledger had reckoned.

    The lease is the one it holds, or the last one it held.
    """

    job_id: str
    generation: int
    steps_done: float


@value
class Measured:
    """What its node has measured of a job over a stable stretch, the first steps after each change left out."""

    job_id: str
    generation: int
    rate_hz: float
    utilisation: float
    """The part of the time in which it kept its devices busy."""
    persistent_bytes: int | None
    ephemeral_bytes: int | None
    """What it has of a device's memory; None where nobody can see that."""
    neighbours: tuple[str, ...] = ()
    """Who computed on its devices meanwhile; empty if it was alone there."""
    steps: int = 0
    """How many were counted for that; 0 if nobody says."""
    alone_hz: float | None = None
    """Its rate with nobody beside it, measured in the same window as `rate_hz`; None if there was no such comparison,
    or none that it came through."""
    error: float | None = None
    """Half the width of the interval around `rate_hz` over `alone_hz`, at 95 % confidence; None if the two were not
    compared."""
    window: int = 0
    """Which comparison that was: the jobs that were compared in one have the same number."""


@value
class Grown:
    """A job needs more of a device's memory than was known; of its rate nothing new is."""

    job_id: str
    generation: int
    persistent_bytes: int
    ephemeral_bytes: int


@value
class Lost:
    """The attempt is gone, but the job is not over: it waits again."""

    job_id: str
    generation: int


@value
class Cancelled:
    """Its owner wants it no more. One that comes when the job is over already is too late and is dropped."""

    job_id: str


@value
class Held:
    """It is not to start yet. A job may be held for several reasons; it waits again when the last of them is gone."""

    job_id: str
    reason: Reason = Reason(Code.HELD)


@value
class Released:
    """What held it under this code no longer does."""

    job_id: str
    code: Code = Code.HELD


@value
class NodeJoined:
    """A node is there: a new one, or one that was lost and has come back."""

    node: Node


@value
class NodeLost:
    """The node is gone, and with it every lease on one of its devices."""

    node_name: str


@value
class DevicesBlocked:
    """These devices of the node are somebody else's for now, and no others: a bit mask. Those in use are left."""

    node_name: str
    mask: int


@value
class Woken:
    """The time has come at which the policy had asked to look again."""


Event = (
    Submitted
    | Finished
    | Failed
    | Lost
    | Progressed
    | Measured
    | Grown
    | Cancelled
    | Held
    | Released
    | NodeJoined
    | NodeLost
    | DevicesBlocked
    | Woken
)
