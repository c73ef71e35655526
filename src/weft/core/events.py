"""What happened, in the past tense. Drivers make events; only the ledger records them."""

from __future__ import annotations

from weft.core.value import value
from weft.core.values import JobSpec, Node


@value
class Submitted:
    job: JobSpec


@value
class Finished:
    """The attempt ended well. One of an older attempt is late and is dropped."""

    job_id: str
    attempt: int


@value
class Failed:
    """The attempt ended badly. One of an older attempt is late and is dropped."""

    job_id: str
    attempt: int


@value
class Progressed:
    """The driver measured how far the job has come; replaces what the ledger had reckoned.

    The attempt is the one that runs, or the last one that did. A word of an older one is late and is dropped.
    """

    job_id: str
    attempt: int
    steps_done: float


@value
class Cancelled:
    """Its owner wants it no more. One that comes when the job is over already is too late and is dropped."""

    job_id: str


@value
class Held:
    job_id: str


@value
class Released:
    job_id: str


@value
class NodeJoined:
    """A node is there: a new one, or one that was lost and has come back."""

    node: Node


@value
class NodeLost:
    """The node is gone, and with it every attempt that held one of its devices."""

    node_name: str


@value
class Woken:
    """The time has come at which the policy had asked to look again."""


Event = Submitted | Finished | Failed | Progressed | Cancelled | Held | Released | NodeJoined | NodeLost | Woken
