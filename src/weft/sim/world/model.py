"""The values of a world, and what they say of a job."""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from statistics import NormalDist
from typing import Any, TypeVar

from weft.core.commands import Allocation
from weft.core.errors import InputError
from weft.core.value import value
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.plan.free_devices import NodeGroup
from weft.sim.colocation import AS_ASSUMED, Fitted, Interference, Profile, Table, ThrottleEffect, plain
from weft.sim.trace import TraceJob

T = TypeVar("T")
WHOLE = (1.0, 1.0)
LONG = ("models", "unknown_memory", "unknown_utilisation")


@value
class Habits:
    """What is known of a model: (utilisation, weight) and (persistent, ephemeral) bytes, or nothing."""

    load: tuple[float, float] | None = None
    memory: tuple[int, int] | None = None


UNKNOWN = Habits()


@dataclass(frozen=True)
class World:
    """Values that decide; nothing in the simulator asks which world it is in."""

    name: str
    counts_only: bool
    preemption_s: float
    """A resume on other devices, or with its memory gone: checkpoint, launch and restore."""
    startup_s: float = 0.0
    """From the first launch of a job to its first step: imports, data."""
    speed: Mapping[str, float] = field(default_factory=dict)
    skew: Mapping[str, float] = field(default_factory=dict)
    unknown_skew: tuple[float, ...] = ()
    pause_s: float = math.inf
    """A resume on the very devices it was paused on, its memory kept. Never more than a resume elsewhere."""
    measure_s: float = 20.0
    """How long a node needs to measure a rate."""
    rate_noise: float = 0.0
    """Relative standard deviation of measured rates."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes of a device, by type."""
    models: Mapping[str, Habits] = field(default_factory=dict)
    """By the plain name of the model."""
    unknown_memory: tuple[tuple[int, int], ...] = ()
    unknown_utilisation: tuple[tuple[float, float], ...] = ()
    interference: Interference = field(default_factory=Fitted)
    held_back: ThrottleEffect = AS_ASSUMED
    mtbf_s: float = 0.0
    """How long a node is up on average before it fails; 0: for ever."""
    repair_s: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "pause_s", min(self.pause_s, self.preemption_s))

    def shape(self, cluster: Cluster) -> Cluster:
        """The cluster as this world lets it be seen."""
        if self.counts_only:
            return cluster.flattened()
        nodes = (
            node if node.memory_bytes is not None else replace(node, memory_bytes=self.memory_bytes(node.device_type))
            for node in cluster.nodes
        )
        return replace(cluster, nodes=tuple(nodes))

    def describe(self, job: TraceJob, seed: int) -> JobSpec:
        """The job as the scheduler hears of it: with the rates and the skew that profiling would find."""
        spec = job.spec
        if self.counts_only:
            return _in_seconds(spec, job.duration_s) if spec.device_types or spec.step_rate_hz else spec
        skew = self._skew_of(spec, seed) if spec.skew is None and spec.gang_size > 1 else spec.skew
        return replace(spec, step_rate_hz=spec.step_rate_hz or self.speed, skew=skew)

    def check_types(self, cluster: Cluster, named_by_jobs: frozenset[str]) -> None:
        """Every type of the cluster must have a speed, here or in the trace."""
        known = {*self.speed, *named_by_jobs}
        for kind in cluster.device_types:
            if not self.counts_only and kind not in known:
                raise InputError(
                    f"the speed of a {kind} is not known",
                    f"known: {', '.join(sorted(known))}; a file for --world can set it: [speed] {kind} = 1.0",
                )

    # ---- what sharing a device is like

    def memory_bytes(self, kind: str) -> int | None:
        """Of one device of a type; None where it is not known; then devices of the type are not shared."""
        return None if self.counts_only else self.memory.get(kind)

    def profile(self, spec: JobSpec, seed: int) -> Profile:
        """What running it alone would show: of its model, or drawn by the seed."""
        known = self._habits_of(spec.model) if spec.model else UNKNOWN
        utilisation, weight = known.load or self._draw(self.unknown_utilisation, WHOLE, spec, seed, "load")
        persistent, ephemeral = known.memory or self._draw(self.unknown_memory, (1, 0), spec, seed, "memory")
        if spec.memory_bytes is not None:  # the owner says how much in all, and not what of it lasts
            each_bytes = spec.memory_bytes // spec.gang_size
            persistent = each_bytes * persistent // (persistent + ephemeral)
            ephemeral = each_bytes - persistent
        return Profile(utilisation, weight, persistent, ephemeral, spec.model)

    def noise(self, job_id: str, seed: int, serial: int) -> float:
        """Noise factor of the n-th measured rate of a job."""
        return noise(self.rate_noise, seed, "noise", job_id, serial)

    def outages(self, cluster: Cluster, seed: int, until_s: float) -> Iterator[tuple[float, str, float]]:
        """(when, which node, when it is back), in the order of time."""
        return outages(cluster, self.mtbf_s, self.repair_s, seed, until_s)

    def _habits_of(self, model: str) -> Habits:
        """Of ResNet-18 (batch size 32), if that is known, or else of ResNet-18."""
        return self.models.get(plain(model)) or self.models.get(plain(model.partition(" (")[0]), UNKNOWN)

    def _draw(self, choices: tuple[T, ...], default: T, spec: JobSpec, seed: int, what: str) -> T:
        return drawn(choices, seed, what, spec.id) if choices else default

    def _skew_of(self, spec: JobSpec, seed: int) -> float:
        known = self.skew.get(spec.model.lower())
        if known is not None or not self.unknown_skew:
            return known or 0.0
        return self.unknown_skew[zlib.crc32(f"{seed}/{spec.id}".encode()) % len(self.unknown_skew)]

    def parameters(self) -> dict[str, Any]:
        """The values that distinguish this world. Long lists are counted and marked, a table of pairs is named."""
        shown = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in LONG:
            shown[name] = f"{len(shown[name])}, CRC {zlib.crc32(repr(shown[name]).encode()):08x}"
        shown["interference"], shown["held_back"] = _said(self.interference), asdict(self.held_back)
        return {f"world.{key}": list(value) if isinstance(value, tuple) else value for key, value in shown.items()}


def _said(interference: Interference) -> Any:
    if isinstance(interference, Table):
        return interference.source
    return asdict(interference) if isinstance(interference, Fitted) else type(interference).__name__


def _in_seconds(spec: JobSpec, duration_s: float) -> JobSpec:
    """Where all devices are alike, a step is a second."""
    declared_steps = None if spec.declared_steps is None else duration_s
    return replace(spec, device_types=None, step_rate_hz={}, declared_steps=declared_steps)


# ---- How fast jobs run that have their devices to themselves.


class Speeds:
    """How fast jobs run on the allocations of one cluster in one world."""

    def __init__(self, world: World, cluster: Cluster, nodes: Sequence[Node]) -> None:
        """`nodes` is the ledger's own list, to which those that come back after a failure are added."""
        self._world = world
        self._nodes = nodes
        self._types = cluster.device_types
        sizes = [node.device_count for node in cluster.nodes]
        self._groups = {
            kind: NodeGroup([i for i, node in enumerate(cluster.nodes) if node.device_type == kind], sizes)
            for kind in cluster.device_types
        }

    def pace(self, spec: JobSpec, allocation: Allocation) -> tuple[float, float]:
        """A gang's usual steps per second on these devices, and by what factor it is slower here."""
        kind = self._nodes[allocation[0][0]].device_type
        if spec.skew and len(allocation) > self._groups[kind].fewest(spec.gang_size):
            return spec.rate_hz(kind), 1.0 + spec.skew
        return spec.rate_hz(kind), 1.0

    def best_pace(self, spec: JobSpec) -> float:
        """Alone, consolidated, on the fastest type it may use and that could hold it."""
        if not spec.step_rate_hz:
            return 1.0
        able = [kind for kind in self._types if spec.allows(kind) and self._groups[kind].could_hold(spec.gang_size)]
        return max(spec.rate_hz(kind) for kind in able)


# ---- What the seed decides. The same arguments give the same number in every run, in whatever order they come.

NORMAL = NormalDist()


def chance(*words: object) -> float:
    """Above 0 and below 1.

    Not a CRC: two of them over texts of one length differ by a constant, so that one draw would decide the next one.
    """
    text = "/".join(map(str, words)).encode()
    return (int.from_bytes(blake2b(text, digest_size=6).digest()) + 0.5) / (1 << 48)


def drawn(choices: Sequence[T], *words: object) -> T:
    return choices[int(chance(*words) * len(choices))]


def noise(deviation: float, *words: object) -> float:
    """A factor around 1, log-normal, so that it is never 0 or less; `deviation` is its relative standard deviation."""
    if not deviation:
        return 1.0
    spread = math.sqrt(math.log1p(deviation * deviation))
    return math.exp(spread * NORMAL.inv_cdf(chance(*words)) - spread * spread / 2)


def outages(
    cluster: Cluster, mtbf_s: float, repair_s: float, seed: int, until_s: float
) -> Iterator[tuple[float, str, float]]:
    """When each node goes down before `until_s`, and when it is back, in the order of time."""
    if not mtbf_s:
        return iter(())
    return heapq.merge(*(_outages_of(node.name, mtbf_s, repair_s, seed, until_s) for node in cluster.nodes))


def _outages_of(
    name: str, mtbf_s: float, repair_s: float, seed: int, until_s: float
) -> Iterator[tuple[float, str, float]]:
    """A node that is up fails at a constant rate: how long it has been up already says nothing."""
    serial, down_s = 0, 0.0
    while True:
        down_s -= mtbf_s * math.log(chance(seed, "outage", name, serial))
        if down_s >= until_s:
            return
        yield down_s, name, down_s + repair_s
        down_s += repair_s
        serial += 1
