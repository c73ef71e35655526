"""Events, decisions and job descriptions to and from JSON values: what the log stores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from weft.core.commands import Preempt, Seat, Seating, Start, Unseat
from weft.core.events import (
    Cancelled,
    DevicesBlocked,
    Event,
    Failed,
    Finished,
    Grown,
    Held,
    Launched,
    Lost,
    Measured,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Stepped,
    Submitted,
    Woken,
)
from weft.core.reasons import Code, Reason
from weft.core.values import JobClass, JobSpec, Node

Plain = dict[str, Any]
Decided = Start | Preempt | Seat | Unseat

KINDS: Mapping[str, type] = {
    "Submitted": Submitted,
    "Finished": Finished,
    "Failed": Failed,
    "Lost": Lost,
    "Launched": Launched,
    "Stepped": Stepped,
    "Progressed": Progressed,
    "Measured": Measured,
    "Grown": Grown,
    "Cancelled": Cancelled,
    "Held": Held,
    "Released": Released,
    "NodeJoined": NodeJoined,
    "NodeLost": NodeLost,
    "DevicesBlocked": DevicesBlocked,
    "Woken": Woken,
    "Start": Start,
    "Preempt": Preempt,
    "Seat": Seat,
    "Unseat": Unseat,
}
"""The class of each kind of row in the log. Kinds are on disk: a class may be renamed, a kind never is."""
KIND_OF: Mapping[type, str] = {made: kind for kind, made in KINDS.items()}


def plain(fact: Event | Decided) -> Plain:
    """The fields of an event or a decision, without its kind."""
    return {field.name: _plain_field(getattr(fact, field.name)) for field in fields_of(fact)}


def fact_of(kind: str, fields: Plain) -> Event | Decided:
    """The event or decision that `plain` made these fields of."""
    read = {name: READERS[name](value) if name in READERS else value for name, value in fields.items()}
    made: Event | Decided = KINDS[kind](**read)
    return made


def plain_spec(spec: JobSpec) -> Plain:
    """A job description; fields that have their defaults are left out."""
    changed: Plain = {"id": spec.id}
    for name, default in DEFAULTS.items():
        value = getattr(spec, name)
        if value != default:
            changed[name] = value
    if "device_types" in changed:
        changed["device_types"] = sorted(changed["device_types"])
    if "device_ids" in changed:
        changed["device_ids"] = sorted(changed["device_ids"])
    if "step_rate_hz" in changed:
        changed["step_rate_hz"] = dict(changed["step_rate_hz"])
    return changed


def spec_of(fields: Plain) -> JobSpec:
    read = dict(fields)
    if "device_types" in read:
        read["device_types"] = frozenset(read["device_types"])
    if "device_ids" in read:
        read["device_ids"] = frozenset(read["device_ids"])
    if "job_class" in read:
        read["job_class"] = JobClass(read["job_class"])
    return JobSpec(**read)


def plain_reason(reason: Reason) -> list[Any]:
    return [reason.code, *reason.details]


def reason_of(fields: list[Any]) -> Reason:
    code, *details = fields
    return Reason(Code(code), tuple(details))


def plain_node(node: Node) -> list[Any]:
    """Fields that were added to nodes later are left out where they are unknown."""
    known = [node.name, node.device_count, node.device_type, node.memory_bytes]
    later = [node.cpu_count, node.host, list(node.device_ids)]
    return [*known, *later] if any(later) else known


def node_of(fields: list[Any]) -> Node:
    known, later = fields[:4], fields[4:]
    if not later:
        return Node(*known)
    cpu_count, host, device_ids = later
    return replace(Node(*known), cpu_count=cpu_count, host=host, device_ids=tuple(device_ids))


def plain_seating(seating: Seating) -> list[Any]:
    return [
        seating.allocation,
        seating.lane,
        seating.is_throttled,
        seating.base,
        seating.weight,
        seating.speed,
    ]


def seating_of(fields: list[Any]) -> Seating:
    allocation, *rest = fields
    return Seating(allocation_of(allocation), *rest)


def allocation_of(pairs: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((node, mask) for node, mask in pairs)


def finite(number: float) -> float | None:
    """JSON knows no infinity."""
    return number if math.isfinite(number) else None


def _plain_field(value: Any) -> Any:
    if isinstance(value, JobSpec):
        return plain_spec(value)
    if isinstance(value, Reason):
        return plain_reason(value)
    if isinstance(value, Seating):
        return plain_seating(value)
    return plain_node(value) if isinstance(value, Node) else value


READERS: Mapping[str, Callable[[Any], Any]] = {
    "job": spec_of,
    "reason": reason_of,
    "node": node_of,
    "allocation": allocation_of,
    "seating": seating_of,
    "neighbours": tuple,
    "code": Code,
}
DEFAULTS: Plain = {
    field.name: getattr(JobSpec(""), field.name) for field in fields_of(JobSpec("")) if field.name != "id"
}
