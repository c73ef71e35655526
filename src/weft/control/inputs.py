"""What can come to the desk: wishes of people, words of nodes, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.core.events import Grown, Measured
from weft.core.value import value
from weft.core.view import Decider


@value
class Submit:
    """`request` is checked and complete, but for the environment, which is kept apart."""

    request: Mapping[str, Any]
    env: Mapping[str, str]
    request_id: str | None = None


@value
class Cancel:
    job_id: str


@value
class Hold:
    job_id: str


@value
class Release:
    job_id: str


@value
class ChangePolicy:
    name: str
    policy: Decider


@value
class Hello:
    """A node is there, or there again."""

    node: str
    devices: Sequence[Mapping[str, Any]]
    boot_id: str = ""
    attempts: frozenset[tuple[str, int]] = frozenset()
    """Those it knows of, and will tell how they ended if they have."""
    ended: frozenset[tuple[str, int]] = frozenset()
    """Of these, those that have ended or were lost. How, is reported next."""
    cpus: int | None = None
    """How many CPU cores jobs may use there."""


@value
class Devices:
    """Whose the devices of the node are has changed."""

    devices: Sequence[Mapping[str, Any]]


@value
class Report:
    """A word of a node about one attempt; it may come twice."""

    job_id: str
    attempt: int
    what: str
    body: Mapping[str, Any]


@value
class Measurement:
    """What a node has measured of an attempt: its rate over a stable stretch, or memory that it did not need before."""

    attempt: int
    measured: Measured | Grown


@value
class Tick:
    """Some time has come: the policy wants to look, a limit is reached, a back-off is over."""


@value
class StopAll:
    """Everything that runs is to end; what waits goes on waiting."""


Input = Submit | Cancel | Hold | Release | ChangePolicy | Hello | Devices | Report | Measurement | Tick | StopAll
