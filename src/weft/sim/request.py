"""What all runs of a simulation have in common, and whether it can be simulated at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from weft.core.errors import InputError
from weft.core.text import count_of, did_you_mean
from weft.core.values import Cluster, JobClass, JobSpec, Node, nodes_of
from weft.policies.loader import NamedPolicy
from weft.sim.trace import Trace
from weft.sim.world import World

SHOWN = 8
"""Tenants that a hint names at most."""


@dataclass(frozen=True)
class Misfit:
    """A job that could never run here, whatever the policy."""

    id: str
    gang_size: int
    why: str
    """What is said of the job: "is a gang of 4, and the cluster has only 2 devices"."""
    hint: str
    position: int
    """In the trace."""


@dataclass(frozen=True)
class Request:
    trace: Trace
    cluster: Cluster
    world: World
    seed: int
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Devices for guaranteed jobs, by tenant."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Of the world, and the quotas in it."""
        return {**self.world.parameters(), **{f"quota.{tenant}": devices for tenant, devices in self.quotas.items()}}

    def check(self) -> None:
        """Raise InputError if some job could never run: before hours of work, not after."""
        self._check_quotas()
        self.world.check_types(self.cluster, self.trace.device_types)
        for misfit in self._misfits():
            raise InputError(f"{self.trace.where(misfit.position)}: job {misfit.id} {misfit.why}", misfit.hint)

    def without_misfits(self) -> tuple[Request, list[Misfit]]:
        """The same for the jobs that can run, and the others, by arrival. Every policy then gets the same jobs."""
        found = {misfit.position: misfit for misfit in self._misfits()}
        if not found:
            return self, []
        if len(found) == len(self.trace):
            first = found[0]
            raise InputError(f"no job of {self.trace.name} can run here: job {first.id} {first.why}", first.hint)
        return replace(self, trace=self.trace.without(found)), [found[position] for position in sorted(found)]

    def _misfits(self) -> Iterator[Misfit]:
        yield from self._beyond_quota()
        yield from self._beyond_cluster()

    def _check_quotas(self) -> None:
        for tenant, devices in self.quotas.items():
            if devices < 0:
                raise InputError(f"{tenant} has a quota of {devices} devices", "a quota is 0 or more")
            if tenant not in self.trace.tenants:
                there = sorted(self.trace.tenants)
                few = ", ".join(there[:SHOWN]) + (", …" if len(there) > SHOWN else "")
                raise InputError(
                    f"{tenant} has a quota, and no job in this trace", f"{did_you_mean(tenant, there)}tenants: {few}"
                )

    def _beyond_quota(self) -> Iterator[Misfit]:
        for i, job in enumerate(self.trace if self.quotas else ()):
            spec, quota = job.spec, self.quotas.get(job.spec.tenant, 0)
            if spec.job_class is JobClass.GUARANTEED and spec.gang_size > quota:
                why = (
                    f"is guaranteed and would wait for ever: it is a gang of {spec.gang_size}, "
                    f"and the quota of {spec.tenant} is {quota}"
                )
                hint = f"--quota {spec.tenant}={spec.gang_size} or more, or another class"
                yield Misfit(spec.id, spec.gang_size, why, hint, i)

    def _beyond_cluster(self) -> Iterator[Misfit]:
        if self.trace.largest_gang <= self._gang_for_all():
            return
        shaped = self.world.shape(self.cluster)
        for i, job in enumerate(self.trace):
            spec = self.world.describe(job, self.seed)
            if spec.gang_size > shaped.largest_gang(spec):
                yield self._too_large(i, spec, shaped)

    def check_policy(self, named: NamedPolicy) -> None:
        """Refuse parameters with which some job could never end on this cluster in this world."""
        max_share = named.parameters.get("max_share")
        if isinstance(max_share, int | float) and self.trace.largest_gang > max_share * self.cluster.device_count:
            raise InputError(
                f"{named.label}: a tenant may hold {max_share:g} of {self.cluster.device_count} devices; the largest "
                f"gang of this trace is {self.trace.largest_gang}",
                "give a larger max_share, or a larger cluster",
            )
        quantum_s = named.parameters.get("quantum_s")
        if isinstance(quantum_s, int | float) and quantum_s <= self.world.pause_s:
            raise InputError(
                f"{named.label}: in a quantum of {quantum_s:g} s no job makes progress, because a preempted job needs "
                f"{self.world.pause_s:g} s to get going again",
                "give a longer quantum_s, or a world with a smaller pause_s",
            )

    def _gang_for_all(self) -> int:
        """A gang of this size fits whichever types its job allows; 0 if some job might find none."""
        shaped = self.world.shape(self.cluster)
        counts = [shaped.count_of(kind) for kind in shaped.device_types]
        if self.world.counts_only or not self.trace.device_types:
            return max(counts)
        return min(counts) if self.trace.device_types <= set(shaped.device_types) else 0

    def _too_large(self, i: int, spec: JobSpec, shaped: Cluster) -> Misfit:
        largest = shaped.largest_gang(spec)
        if not largest:
            wanted, there = sorted(spec.device_types or ()), ", ".join(shaped.device_types)
            why = f"runs only on {' or '.join(wanted)}, and the cluster has {there}"
            hint = f"name the types of the cluster, e.g. --cluster 4x4:{wanted[0]}, or use --world ideal"
            return Misfit(spec.id, spec.gang_size, why, hint, i)
        of_one_type = " of a type it may use" if len(shaped.device_types) > 1 else ""
        why = f"is a gang of {spec.gang_size}, and the cluster has only {count_of(largest, 'device')}{of_one_type}"
        largest_gang = self.trace.largest_gang
        hint = f"the largest gang of this trace is {largest_gang}: e.g. --cluster 1x{largest_gang}"
        return Misfit(spec.id, spec.gang_size, why, hint, i)


# ---- Clusters as people write them: 64x8:V100,16x4:K80 is 64 nodes of 8 V100 each and 16 of 4 K80.

MOST_NODES = 100_000
"""A slip of the finger must not fill the memory."""
PART = re.compile(r"(?P<nodes>\d+)[x×](?P<devices>\d+)(:(?P<kind>[\w.+-]+))?", re.ASCII)
HINT = "write NODESxDEVICES[:TYPE], several with commas: 64x8 or 64x8:V100,16x4:K80"
ANY_TYPE = Node("", 1).device_type


def parse_cluster(text: str) -> Cluster:
    cluster_shape = [_part(part.strip(), text) for part in text.split(",")]
    node_count = sum(nodes for nodes, _, _ in cluster_shape)
    if node_count > MOST_NODES:
        raise InputError(f'the cluster "{text}" has {node_count:,} nodes', f"weft simulates up to {MOST_NODES:,}")
    return Cluster(nodes_of(cluster_shape))


def cluster_text(cluster: Cluster) -> str:
    """What `parse_cluster` would read as these nodes, names aside."""
    parts = []
    for (devices, kind), nodes in groupby(cluster.nodes, lambda node: (node.device_count, node.device_type)):
        suffix = "" if kind == ANY_TYPE else f":{kind}"
        parts.append(f"{len(list(nodes))}x{devices}{suffix}")
    return ",".join(parts)


def _part(part: str, text: str) -> tuple[int, int, str]:
    found = PART.fullmatch(part)
    if not found:
        raise InputError(f'"{part}" in the cluster "{text}" is no group of nodes', HINT)
    nodes, devices = int(found["nodes"]), int(found["devices"])
    if not nodes or not devices:
        raise InputError(f'"{part}" in the cluster "{text}" has no devices', HINT)
    return nodes, devices, found["kind"] or ANY_TYPE


# ---- Progress of a simulation.


class ProgressListener:
    """Does not listen; derive from it to."""

    def skipped(self, misfits: Sequence[Misfit], jobs: int) -> None:
        """Of so many jobs, these could never run and are left out of all runs."""

    def begins(self, trace: Trace, policies: Sequence[str]) -> None:
        """All has been read and checked; the runs start now."""

    def progressed(self, finished: Sequence[int]) -> None:
        """So many jobs have finished in each of the runs; called now and then."""
