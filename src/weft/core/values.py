"""What is submitted and what it runs on: jobs as described, nodes, and the cluster. All frozen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from weft.core.errors import InputError
from weft.core.value import value

EPSILON_S = 1e-6
"""Two instants closer than this are one; that little work remaining is none."""

STARTUP_S = 120.0
"""How long an attempt may take to its first step before it is charged and may be preempted, by default."""


class JobClass(StrEnum):
    """How a job shares devices with others."""

    AUTO = "auto"
    GUARANTEED = "guaranteed"
    OPPORTUNISTIC = "opportunistic"


@value
class JobSpec:
    """A job as its owner describes it. Unknown fields are None or empty, never a guess."""

    id: str
    gang_size: int = 1
    tenant: str = "default"
    job_class: JobClass = JobClass.AUTO
    device_types: frozenset[str] | None = None
    """The types it may run on; None allows all."""
    declared_steps: float | None = None
    step_rate_hz: Mapping[str, float] = field(default_factory=dict)
    """Steps per second of the whole gang, per device type, as far as known."""
    memory_bytes: int | None = None
    skew: float | None = None
    """Placement sensitivity: a gang spread over more nodes than it needs takes 1 + skew times as long a step."""
    min_run_s: float = 0.0
    """Once started it is not preempted before this long."""
    model: str = ""
    may_share: bool = True
    """Whether others may compute on its devices beside it."""
    may_migrate: bool = True
    """Whether it may be moved to other devices for a gain; a job that needs its devices displaces it all the same."""
    weight: float = 1.0
    """Where jobs take turns, its part of the time against that of others."""
    priority: int = 0
    """Among the jobs of its tenant those of a higher priority go first; between tenants it changes nothing."""
    cpus: int = 0
    """CPU cores that it needs, all tasks together, an equal part with each device; 0: it declares none."""
    device_ids: frozenset[int] = frozenset()
    """These devices of one node, all of them and no others; empty allows all."""
    begin_s: float | None = None
    """It does not start before this time."""

    @property
    def is_bound(self) -> bool:
        """Whether free devices of a type it allows are not enough for it."""
        return bool(self.cpus or self.device_ids)

    def rate_hz(self, device_type: str) -> float:
        """Its steps per second on a type; 1 where nothing is known, so that a step is then a second."""
        return self.step_rate_hz.get(device_type, 1.0)

    def allows(self, device_type: str) -> bool:
        return self.device_types is None or device_type in self.device_types


def check_spec(spec: JobSpec) -> None:
    """Raise InputError for a description that makes no sense."""
    for number in (spec.declared_steps, spec.skew, spec.min_run_s):
        if number is not None and not 0 <= number < math.inf:
            raise InputError(f"{spec.id} has {number} for its steps, skew or minimum run time", "give 0 or more")
    for kind, rate_hz in spec.step_rate_hz.items():
        if not 0 < rate_hz < math.inf:
            raise InputError(f"{spec.id} makes {rate_hz} steps a second on {kind}", "a rate is above 0")
    if not 0 < spec.weight < math.inf:
        raise InputError(f"{spec.id} has a weight of {spec.weight}", "a weight is above 0; the default is 1")
    if spec.gang_size < 1:
        raise InputError(f"{spec.id} asks for a gang of {spec.gang_size}", "a gang has at least one task")
    if spec.cpus < 0:
        raise InputError(f"{spec.id} asks for {spec.cpus} CPU cores", "give 1 or more, or none to leave it open")
    if spec.device_ids and (len(spec.device_ids) != spec.gang_size or min(spec.device_ids) < 0):
        named = ", ".join(map(str, sorted(spec.device_ids)))
        raise InputError(f"{spec.id}, a gang of {spec.gang_size}, names the devices {named}", "name one for each")
    if spec.begin_s is not None and not math.isfinite(spec.begin_s):
        raise InputError(f"{spec.id} begins at {spec.begin_s}", "a time to begin at is a number")


@value
class Node:
    """One machine and its devices, all of one type, numbered from 0."""

    name: str
    device_count: int
    device_type: str = "any"
    memory_bytes: int | None = None
    """Of each device. Where it is unknown, devices are not shared."""
    cpu_count: int | None = None
    """CPU cores of its host; None: not known, and not counted."""
    host: str = ""
    """The machine, where nodes are parts of one and share its CPU cores; empty: the node is a machine of its own."""
    device_ids: tuple[int, ...] = ()
    """The ids its owner gives its devices, in order; empty: 0, 1, …"""

    def mask_of(self, device_ids: frozenset[int]) -> int:
        """The devices of these ids; 0 if one of them is not here."""
        ids = self.device_ids or range(self.device_count)
        mask = sum(1 << bit for bit, each in enumerate(ids) if each in device_ids)
        return mask if mask.bit_count() == len(device_ids) else 0


@value
class Cluster:
    """The nodes, in the order that breaks ties between them."""

    nodes: tuple[Node, ...]

    @property
    def device_count(self) -> int:
        return sum(node.device_count for node in self.nodes)

    @property
    def device_types(self) -> tuple[str, ...]:
        """Each type once, in the order of the nodes."""
        return tuple(dict.fromkeys(node.device_type for node in self.nodes))

    def count_of(self, device_type: str) -> int:
        return sum(node.device_count for node in self.nodes if node.device_type == device_type)

    def largest_gang(self, spec: JobSpec) -> int:
        """The most devices of one type that a job like this could ever hold."""
        return max((self.count_of(t) for t in self.device_types if spec.allows(t)), default=0)

    def flattened(self) -> Cluster:
        """The same number of devices as one node of one type: what is left when only counts matter."""
        return Cluster((Node("all", self.device_count),))


def nodes_of(shape: Iterable[tuple[int, int, str]]) -> tuple[Node, ...]:
    """Nodes named n0, n1, … from (how many, devices each, type)."""
    described = [(devices, kind) for count, devices, kind in shape for _ in range(count)]
    return tuple(Node(f"n{i}", devices, kind) for i, (devices, kind) in enumerate(described))
