"""Constraints of some jobs besides free devices: CPU cores of a host, and devices named by id."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from weft.core.commands import Allocation
from weft.core.values import JobSpec, Node

if TYPE_CHECKING:
    from weft.core.job import Job
    from weft.core.ledger import Ledger


def host_of(node: Node) -> str:
    return node.host or node.name


def cpus_on(spec: JobSpec, devices: int) -> int:
    """The CPU cores that a job needs on a node where it has so many of its devices; parts of a core count as one."""
    return -(-spec.cpus * devices // spec.gang_size)


def cpu_counts(nodes: Sequence[Node], is_present: Sequence[bool]) -> dict[str, int]:
    """The CPU cores of each host where the number is known."""
    there = [node for node, here in zip(nodes, is_present, strict=True) if here]
    return {host_of(node): node.cpu_count for node in there if node.cpu_count is not None}


def cpus_left(ledger: Ledger, *, with_guests: bool = True, leaving: Container[str] = ()) -> dict[str, int]:
    """The CPU cores of each host that no holder or staying guest has declared."""
    left = cpu_counts(ledger.nodes, ledger.is_present)
    for job in ledger.running.values():
        _use(left, ledger.nodes, job, job.allocation)
    for job in ledger.seats.seated.values() if with_guests else ():
        if job.seating and job.id not in leaving:
            _use(left, ledger.nodes, job, job.seating.allocation)
    return left


def nodes_short_of_cpus(ledger: Ledger, allocation: Allocation) -> frozenset[int]:
    """All nodes of those hosts of an allocation whose CPU cores are oversubscribed."""
    left = cpus_left(ledger)
    short = {host for node, _ in allocation if left.get(host := host_of(ledger.nodes[node]), 0) < 0}
    return frozenset(at for at, node in enumerate(ledger.nodes) if ledger.is_present[at] and host_of(node) in short)


def admits(ledger: Ledger, left: dict[str, int], spec: JobSpec, allocation: Allocation) -> bool:
    """Whether a job could compute on these devices, with so many CPU cores left on each host; then it uses them."""
    if spec.device_ids and any(mask != ledger.nodes[node].mask_of(spec.device_ids) for node, mask in allocation):
        return False
    needed = dict[str, int]()
    for node, mask in allocation if spec.cpus else ():
        host = host_of(ledger.nodes[node])
        needed[host] = needed.get(host, 0) + cpus_on(spec, mask.bit_count())
    if any(cpus > left.get(host, cpus) for host, cpus in needed.items()):
        return False
    for host, cpus in needed.items():
        if host in left:
            left[host] -= cpus
    return True


def _use(left: dict[str, int], nodes: Sequence[Node], job: Job, allocation: Allocation) -> None:
    for node, mask in allocation if job.spec.cpus else ():
        host = host_of(nodes[node])
        if host in left:
            left[host] -= cpus_on(job.spec, mask.bit_count())
