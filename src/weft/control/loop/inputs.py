"""What one instant starts from and what it results in: inputs, and an outcome to write, send and answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.control.store.log_store import Fact
from weft.core.events import Grown, Measured, Stepped
from weft.core.value import value
from weft.core.view import Decider
from weft.protocol import PauseOrder, RunOrder, StopOrder, Synced


@value
class Submit:
    """`request` is checked and complete, without the environment, which is stored separately."""

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
    """End a hold, or a pause by the owner."""

    job_id: str


@value
class PauseByOwner:
    job_id: str


@value
class ChangePolicy:
    name: str
    policy: Decider


@value
class NodeConnected:
    """The coordinator of a node has connected, or connected again."""

    node: str
    devices: Sequence[Mapping[str, Any]]
    boot_id: str = ""
    attempts: frozenset[tuple[str, int]] = frozenset()
    """Those that it knows of. It reports how they ended, if they have."""
    ended: frozenset[tuple[str, int]] = frozenset()
    """Of these, those that have ended or were lost. How is reported next."""
    cpus: int | None = None
    """How many CPU cores jobs may use there."""


@value
class NodeDevices:
    """Other programs have taken or freed devices of the node."""

    devices: Sequence[Mapping[str, Any]]


@value
class AttemptReport:
    """A report of a node about one attempt; it may come twice."""

    job_id: str
    attempt: int
    what: str
    body: Mapping[str, Any]


@value
class Measurement:
    """What a node has seen of an attempt: its first step, its rate over a stable stretch, or memory that it did not
    need before."""

    attempt: int
    measured: Measured | Grown | Stepped


@value
class ProgressReport:
    """How far attempts have come, by job, every second. Only a first step and growth are logged."""

    jobs: Mapping[str, Mapping[str, Any]]


@value
class Tick:
    """A time is due: the policy asked to be called, a limit is reached, or a back-off is over."""


@value
class StopAll:
    """Stop all running jobs; waiting jobs go on waiting."""


Input = (
    Submit
    | Cancel
    | Hold
    | PauseByOwner
    | Release
    | ChangePolicy
    | NodeConnected
    | NodeDevices
    | AttemptReport
    | Measurement
    | ProgressReport
    | Tick
    | StopAll
)


@value
class PendingRun:
    """A run order as it is decided. The environment is large, and is read only when the order is sent."""

    run: RunOrder
    environment: int


Order = PendingRun | PauseOrder | StopOrder | Synced


@dataclass
class InstantOutcome:
    facts: list[Fact] = field(default_factory=list)
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    attempts: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    environments: list[tuple[int, str, str]] = field(default_factory=list)
    requests: list[tuple[str, int]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    """One for each input: the answer, or a WeftError."""
    is_quiet: bool = False
    """Nothing was decided, and nothing is to be written: only progress was noted."""
