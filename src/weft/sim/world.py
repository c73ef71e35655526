"""The model of the world: what a start costs and how fast a job runs where it was placed."""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from weft.core.commands import Allocation
from weft.core.errors import InputError
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.group import NodeGroup
from weft.sim.trace import TraceJob

PACKAGED = ("ideal", "default")


@dataclass(frozen=True)
class World:
    """Values that decide; nothing in the simulator asks which world it is in."""

    name: str
    counts_only: bool
    preemption_s: float
    speed: Mapping[str, float] = field(default_factory=dict)
    skew: Mapping[str, float] = field(default_factory=dict)
    unknown_skew: tuple[float, ...] = ()

    def shape(self, cluster: Cluster) -> Cluster:
        """The cluster as this world lets it be seen."""
        return cluster.flattened() if self.counts_only else cluster

    def describe(self, job: TraceJob, seed: int) -> JobSpec:
        """The job as the scheduler hears of it: with the rates and the skew that profiling would find."""
        spec = job.spec
        if self.counts_only:
            return replace(spec, device_types=None, step_rate_hz={}) if spec.device_types else spec
        skew = spec.skew if spec.gang_size == 1 else spec.skew or self._skew_of(spec, seed)
        return replace(spec, step_rate_hz=spec.step_rate_hz or self.speed, skew=skew)

    def check_types(self, cluster: Cluster, named_by_jobs: frozenset[str]) -> None:
        """Every type of the cluster must have a speed, here or in the trace."""
        known = {*self.speed, *named_by_jobs}
        for kind in cluster.device_types:
            if not self.counts_only and kind not in known:
                raise InputError(
                    f"nobody knows how fast a {kind} is",
                    f"known: {', '.join(sorted(known))}; a file for --world can tell it: [speed] {kind} = 1.0",
                )

    def _skew_of(self, spec: JobSpec, seed: int) -> float:
        known = self.skew.get(spec.model.lower())
        if known is not None or not self.unknown_skew:
            return known or 0.0
        return self.unknown_skew[zlib.crc32(f"{seed}/{spec.id}".encode()) % len(self.unknown_skew)]

    def parameters(self) -> dict[str, Any]:
        plain = asdict(self)
        return {f"world.{key}": list(value) if isinstance(value, tuple) else value for key, value in plain.items()}


class Ground:
    """How fast jobs run on the allocations of one cluster in one world."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._nodes: tuple[Node, ...] = cluster.nodes
        self._types = cluster.device_types
        sizes = [node.device_count for node in cluster.nodes]
        self._groups = {
            kind: NodeGroup([i for i, node in enumerate(cluster.nodes) if node.device_type == kind], sizes)
            for kind in cluster.device_types
        }

    def pace(self, spec: JobSpec, allocation: Allocation) -> tuple[float, float]:
        """A gang's usual steps per second on these devices, and by what factor it is slower here."""
        kind = self._nodes[allocation[0][0]].device_type
        is_spread = spec.skew and len(allocation) > self._groups[kind].fewest(spec.gang_size)
        return spec.rate_hz(kind), 1.0 + spec.skew if is_spread else 1.0

    def best_pace(self, spec: JobSpec) -> float:
        """Alone, consolidated, on the fastest type it may use and that could hold it."""
        if not spec.step_rate_hz:
            return 1.0
        able = [kind for kind in self._types if spec.allows(kind) and self._groups[kind].could_hold(spec.gang_size)]
        return max(spec.rate_hz(kind) for kind in able)


def load_world(name: str) -> World:
    """A packaged world by name, or a TOML file that overrides values of the default one."""
    if name in PACKAGED:
        return _packaged(name)
    path = Path(name)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the world file {name} cannot be read: {error}",
            f"--world takes {', '.join(PACKAGED)} or a TOML file",
        ) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}", "keys: counts_only, preemption_s, [speed], [skew]") from error
    return _merge(_packaged("default"), path.stem, table, name)


@cache
def _packaged(name: str) -> World:
    text = resources.files("weft.sim").joinpath("worlds", f"{name}.toml").read_text(encoding="utf-8")
    return _merge(World(name, counts_only=False, preemption_s=0.0), name, tomllib.loads(text), name)


def _merge(base: World, name: str, table: Mapping[str, Any], source: str) -> World:
    values: dict[str, Any] = {"name": name}
    for key, value in table.items():
        match key, value:
            case "counts_only", bool():
                values[key] = value
            case "preemption_s", int() | float() if value >= 0:
                values[key] = float(value)
            case "speed" | "skew", dict():
                values[key] = {**getattr(base, key), **_numbers(value, key, source)}
            case "unknown", {"skew": list(choices), **rest} if not rest:
                values["unknown_skew"] = tuple(float(choice) for choice in choices)
            case _:
                allowed = ", ".join(f.name for f in fields(World) if f.name not in ("name", "unknown_skew"))
                raise InputError(f"{source}: {key} = {value!r} means nothing here", f"keys: {allowed}, unknown.skew")
    return replace(base, **values)


def _numbers(table: Mapping[str, Any], key: str, source: str) -> dict[str, float]:
    floor = 0.0 if key == "skew" else 1e-9
    for name, value in table.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or value < floor:
            raise InputError(f"{source}: [{key}] {name} = {value!r} is not a number above 0", f"e.g. {name} = 1.0")
    return {name: float(value) for name, value in table.items()}
