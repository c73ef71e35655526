"""The messages between daemon and coordinator: typed, frozen, versioned, with one definition for both ends.

They travel as newline-delimited JSON. The coordinator says hello with the version that it speaks; a daemon of another
version refuses it and says so, and running jobs go on. Within a version, fields that an end does not know are ignored.
Reports are repeated until they are acknowledged, and orders are safe to repeat.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from weft.core.errors import WeftError

VERSION = 2
"""Raised with every change that an older end would misunderstand."""

LARGEST = 2**53
TEXT_LETTERS = 4_000
MOST_ENTRIES = 10_000
MOST_NEIGHBOURS = 1_000
DEEPEST = 6

Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Quantity = Count | Annotated[float, Meta(ge=0, le=LARGEST)]
"""A whole number stays one: bytes are written to the log as they were measured."""
Number = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)] | Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]


class ProtocolError(WeftError):
    """This is no message of the protocol."""


class VersionError(ProtocolError):
    """The other end speaks another version."""

    def __init__(self, version: object) -> None:
        super().__init__(
            f"the coordinator speaks version {version!r:.40} of the protocol, this daemon version {VERSION}",
            "weft down, then weft up restarts both; jobs that run go on",
        )


class Message(msgspec.Struct, frozen=True, tag_field="type"):
    """Any message. The field `type` says which one it is."""


# ---- from the coordinator to the daemon


class DeviceReport(msgspec.Struct, frozen=True):
    index: Count
    kind: str
    type: str
    name: str
    memory_bytes: Count
    cores: list[int] = []
    blocked_by: str | None = None


class KnownAttempt(msgspec.Struct, frozen=True, omit_defaults=True):
    """An attempt that the coordinator knows of. It reports how it ended, if it has."""

    job: str
    attempt: Count
    generation: int = 0
    state: str = ""
    ended: bool = False


class Hello(Message, frozen=True, tag="hello"):
    """The first message of a coordinator: all that it knows."""

    protocol: int
    node: str
    boot_id: str
    devices: Annotated[list[DeviceReport], Meta(max_length=MOST_ENTRIES)]
    attempts: list[KnownAttempt]
    pid: int = 0
    cpus: Count | None = None


class DevicesChanged(Message, frozen=True, tag="devices"):
    """Other programs have taken or freed devices."""

    devices: Annotated[list[DeviceReport], Meta(max_length=MOST_ENTRIES)]


class JobProgress(msgspec.Struct, frozen=True):
    """How far an attempt has come, and what it uses. Jobs may have written over what this is read from."""

    attempt: Count | UnsetType = UNSET
    generation: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    step: Number | UnsetType | None = UNSET
    step_rate_hz: Number | UnsetType | None = UNSET
    metrics: dict[str, Number | None] | UnsetType = UNSET
    host_bytes: Number | UnsetType | None = UNSET
    persistent_bytes: Number | UnsetType | None = UNSET
    ephemeral_bytes: Number | UnsetType | None = UNSET
    overflow_bytes: Number | UnsetType | None = UNSET
    peak_bytes: Number | UnsetType | None = UNSET
    can_checkpoint: bool | UnsetType = UNSET
    can_swap: bool | UnsetType = UNSET
    duty: int | UnsetType | None = UNSET
    neighbours: list[str] | UnsetType = UNSET
    needs_bytes: tuple[Quantity, Quantity] | UnsetType | None = UNSET
    """Persistent and ephemeral device memory."""


class ProgressUpdate(Message, frozen=True, tag="progress"):
    """Sent every second, never acknowledged."""

    jobs: dict[str, JobProgress]
    warnings: list[str] = []


class MeasuredRate(Message, frozen=True, tag="measured"):
    """The rate of an attempt over a stable stretch, alone or beside its neighbours. Not acknowledged."""

    job: str
    attempt: int
    generation: int
    rate_hz: Quantity
    utilisation: Quantity
    persistent_bytes: Quantity | None = None
    ephemeral_bytes: Quantity | None = None
    neighbours: Annotated[list[str], Meta(max_length=MOST_NEIGHBOURS)] = []
    steps: Quantity = 0.0
    alone_hz: Quantity | None = None
    """These three: of a job that was compared with itself alone."""
    error: Quantity | None = None
    window: Quantity | None = None


class Report(Message, frozen=True, tag="report", kw_only=True):
    """What became of an attempt: `what` is started, paused, resumed, held-back, left, ended, lost or refused.

    Fields that do not belong to it are not set. It is repeated until it is acknowledged.
    """

    serial: int | UnsetType = UNSET
    job: str
    attempt: Count
    generation: int | UnsetType = UNSET
    what: str
    pids: list[Count] | UnsetType = UNSET
    devices: list[int] | UnsetType = UNSET
    lane: int | UnsetType | None = UNSET
    how: str | UnsetType = UNSET
    depth: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    waited_s: float | UnsetType | None = UNSET
    held_bytes: int | UnsetType | None = UNSET
    reason: str | UnsetType = UNSET
    slowdown: float | UnsetType | None = UNSET
    exit_code: int | UnsetType | None = UNSET
    message: str | UnsetType = UNSET
    checkpoint_step: Count | UnsetType = UNSET
    unseen: bool | UnsetType = UNSET
    """It was lost together with the coordinator."""
    never: bool | UnsetType = UNSET
    """The order to run it never arrived."""
    progress: JobProgress | UnsetType = UNSET


# ---- from the daemon to the coordinator


class SeatOrder(msgspec.Struct, frozen=True):
    """Whether the devices are the job's own, whether it is throttled beside others, and its lane."""

    guest: bool = False
    throttled: bool = False
    lane: int = 0
    base: int = 0
    weight: int = 1


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """All that starting an attempt needs."""

    command: list[str]
    cwd: str
    umask: int
    tasks: int
    devices_per_task: int
    env: dict[str, str] = {}
    limit_bytes: int = 0
    memory_bytes: int | None = None
    stdin: bool = False
    split: bool = False
    tty: dict[str, int] | None = None
    array_index: int | None = None
    cpus: int | None = None
    output: str | None = None
    name: str = ""
    strict: bool = False
    """Whether a job that exceeds its memory is ended."""


class RunOrder(Message, frozen=True, tag="run"):
    """Run an attempt on these devices: launch it, resume it, or change its seat."""

    job: str
    attempt: int
    generation: int
    devices: list[int]
    launch: Launch
    seat: SeatOrder = SeatOrder()


class PauseOrder(Message, frozen=True, tag="pause"):
    """Pause at the next step boundary, to make room for incoming jobs that need so much memory; None: not known."""

    job: str
    attempt: int
    generation: int
    needs_bytes: Quantity | None = None
    incoming: list[str] = []


class StopOrder(Message, frozen=True, tag="stop"):
    job: str
    attempt: int
    generation: int


class Synced(Message, frozen=True, tag="synced"):
    """After a hello, all orders have been sent: attempts that none of them named are to end."""

    stop_grace_s: float = 0.0
    pause_grace_s: float = 0.0


class Ack(Message, frozen=True, tag="ack"):
    """The report with this number is on disk."""

    serial: int


class Leave(Message, frozen=True, tag="leave"):
    """The coordinator is to exit. Jobs go on."""


class Refused(Message, frozen=True, tag="refused"):
    """The hello was of another version, and the connection is closed."""

    protocol: int
    message: str


FromCoordinator = Hello | DevicesChanged | ProgressUpdate | MeasuredRate | Report
FromDaemon = RunOrder | PauseOrder | StopOrder | Synced | Ack | Leave | Refused


def from_coordinator(plain: Mapping[str, Any]) -> FromCoordinator:
    """A message of the coordinator. It repeats what jobs wrote, so it is bounded, and odd progress is left out."""
    if plain.get("type") == "hello" and plain.get("protocol") != VERSION:
        raise VersionError(plain.get("protocol"))
    said = dict(plain) if plain.get("type") == "measured" else bounded(plain)
    if not all(math.isfinite(each) for each in said.values() if isinstance(each, float)):
        raise ProtocolError("a message 'measured' has a number that is not finite")
    if isinstance(said.get("progress"), dict):
        said["progress"] = _known_progress(said["progress"])
    if said.get("type") == "progress" and isinstance(said.get("jobs"), dict):
        said["jobs"] = {job: _known_progress(each) for job, each in said["jobs"].items() if isinstance(each, dict)}
        warnings = said.get("warnings")
        said["warnings"] = [each for each in warnings if isinstance(each, str)] if isinstance(warnings, list) else []
    message: FromCoordinator = _converted(said, FromCoordinator)
    return message


def from_daemon(plain: Mapping[str, Any]) -> FromDaemon:
    """A message of the daemon."""
    message: FromDaemon = _converted(plain, FromDaemon)
    return message


def job_progress(said: Mapping[str, Any]) -> JobProgress:
    """What is of the right type; the rest is left out."""
    found: JobProgress = msgspec.convert(_known_progress(said), JobProgress)
    return found


def plain(message: msgspec.Struct) -> dict[str, Any]:
    """A message, or a part of one, as JSON has it."""
    found: dict[str, Any] = msgspec.to_builtins(message)
    return found


def bounded(value: Any, depth: int = 0) -> Any:
    """The same, with an end to every text, list, number and depth."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return max(-LARGEST, min(value, LARGEST))
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth >= DEEPEST:
        return None
    if isinstance(value, Mapping):
        return {_text(key): bounded(each, depth + 1) for key, each in list(value.items())[: MOST_ENTRIES + 1]}
    return [bounded(each, depth + 1) for each in value[: MOST_ENTRIES + 1]]


def _converted(plain: Mapping[str, Any], kind: Any) -> Any:
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, UnicodeError) as error:
        raise ProtocolError(f"a message {plain.get('type')!r:.40} is malformed: {error}"[:500]) from error


def _known_progress(said: Mapping[str, Any]) -> dict[str, Any]:
    """What is of the right type."""
    found = {}
    for field in msgspec.structs.fields(JobProgress):
        if field.name in said:
            try:
                found[field.name] = msgspec.to_builtins(msgspec.convert(said[field.name], field.type))
            except msgspec.ValidationError:
                continue
    return found


def _text(text: str) -> str:
    """Bytes that are no UTF-8 become visible: the log takes only text."""
    return text[:TEXT_LETTERS].encode(errors="backslashreplace").decode()
