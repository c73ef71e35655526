"""What happened, in the past tense. Drivers make events; only the ledger records them.

A lease is what a job holds from one Start to the next; its generation counts from 1. A report of an
older lease is late and is dropped.
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
    """The job succeeded."""

    job_id: str
    generation: int


@value
class Failed:
    """The job failed."""

    job_id: str
    generation: int


@value
class Launched:
    """An attempt of the job was launched on its devices. Until its first step it starts up, for so long at most."""

    job_id: str
    generation: int
    startup_s: float


@value
class Stepped:
    """The attempt has made its first step: it has started up."""

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
    """What it has of a device's memory; None where it cannot be measured."""
    neighbours: tuple[str, ...] = ()
    """The jobs that computed on its devices meanwhile; empty if it was alone."""
    steps: int = 0
    """How many were counted for that; 0 if unknown."""
    alone_hz: float | None = None
    """Its rate alone, measured in the same window as `rate_hz`; None if there was no such comparison,
    or none that it came through."""
    error: float | None = None
    """Half the width of the interval around `rate_hz` over `alone_hz`, at 95 % confidence; None if the two were not
    compared."""
    window: int = 0
    """Which comparison that was: the jobs that were compared in one have the same number."""


@value
class Grown:
    """A job needs more device memory than was known; its rate is unchanged."""

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
    """Its owner cancelled it. Dropped if the job is over already."""

    job_id: str


@value
class Held:
    """It is not to run. A waiting job does not start; a running one pauses at its next step boundary, and its devices
    are free for others. A job may be held for several reasons; it waits again when the last of them is gone.
    """

    job_id: str
    reason: Reason = Reason(Code.HELD)


@value
class Released:
    """What held it under this code no longer does."""

    job_id: str
    code: Code = Code.HELD


@value
class NodeJoined:
    """A node joined: a new one, or one that was lost and is back."""

    node: Node


@value
class NodeLost:
    """The node is lost, and with it every lease on its devices."""

    node_name: str


@value
class DevicesBlocked:
    """Exactly these devices of the node, a bit mask, are in use outside weft. Those that jobs use are omitted."""

    node_name: str
    mask: int


@value
class Woken:
    """The time at which the policy asked to be woken has come."""


Event = (
    Submitted
    | Finished
    | Failed
    | Lost
    | Launched
    | Stepped
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
