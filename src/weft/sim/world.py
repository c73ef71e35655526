"""The model of the world: what a start costs and how fast a job runs where it was placed."""

from __future__ import annotations

import math
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from weft.core.commands import Allocation
from weft.core.errors import InputError
from weft.core.values import Cluster, JobSpec, Node
from weft.policies.group import NodeGroup
from weft.sim.trace import TraceJob
from weft.sim.words import closest

PACKAGED = ("ideal", "default")
KEYS: Mapping[str, str] = {
    "counts_only": "true or false",
    "preemption_s": "a number of seconds ≥ 0",
    "speed": "a table of numbers, one a device type",
    "skew": "a table of numbers, one a model",
    "unknown": "a table with nothing but skew, a list of numbers ≥ 0",
}
"""What a world file may say, and what each value is."""


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
            return _in_seconds(spec, job.duration_s) if spec.device_types or spec.step_rate_hz else spec
        skew = self._skew_of(spec, seed) if spec.skew is None and spec.gang_size > 1 else spec.skew
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


def _in_seconds(spec: JobSpec, duration_s: float) -> JobSpec:
    """Where all devices are alike, a step is a second."""
    declared_steps = None if spec.declared_steps is None else duration_s
    return replace(spec, device_types=None, step_rate_hz={}, declared_steps=declared_steps)


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
        if spec.skew and len(allocation) > self._groups[kind].fewest(spec.gang_size):
            return spec.rate_hz(kind), 1.0 + spec.skew
        return spec.rate_hz(kind), 1.0

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
    except FileNotFoundError:
        hint = f"{closest(name, PACKAGED)}--world takes {', '.join(PACKAGED)} or a TOML file"
        raise InputError(f'there is no world "{name}", and no such file', hint) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the world file {name} cannot be read: {error}", "give a TOML file") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}", f"keys: {', '.join(KEYS)}") from error
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
            case "preemption_s", _ if _is_number(value, 0.0):
                values[key] = float(value)
            case "speed" | "skew", dict():
                values[key] = {**getattr(base, key), **_numbers(value, key, source)}
            case "unknown", {"skew": list(choices), **rest} if not rest and all(_is_number(c, 0.0) for c in choices):
                values["unknown_skew"] = tuple(float(choice) for choice in choices)
            case _:
                raise _refusal(key, value, source)
    return replace(base, **values)


def _refusal(key: str, value: Any, source: str) -> InputError:
    if key in KEYS:
        return InputError(f"{source}: {key} = {value!r} is wrong", f"{key} is {KEYS[key]}")
    return InputError(f"{source}: unknown key {key}", f"{closest(key, KEYS)}keys: {', '.join(KEYS)}")


def _is_number(value: Any, least: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value < math.inf


def _numbers(table: Mapping[str, Any], key: str, source: str) -> dict[str, float]:
    floor = 0.0 if key == "skew" else 1e-9
    for name, value in table.items():
        if not _is_number(value, floor):
            least = "≥ 0" if key == "skew" else "above 0"
            raise InputError(f"{source}: [{key}] {name} = {value!r} is not a number {least}", f"e.g. {name} = 1.0")
    return {name: float(value) for name, value in table.items()}
