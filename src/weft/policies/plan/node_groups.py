"""Nodes by device type: how many there are, which type a job prefers, and how few nodes could hold a gang."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from weft.core.job import Job
from weft.core.values import JobSpec
from weft.core.view import View


class NodeGroup:
    """Node indexes in order, with the size of each."""

    __slots__ = ("_fewest", "_members", "_sizes", "nodes")

    def __init__(self, nodes: Sequence[int], sizes: Sequence[int]) -> None:
        self.nodes = list(nodes)
        self._members = frozenset(nodes)
        self._sizes = sorted((sizes[node] for node in nodes), reverse=True)
        self._fewest: dict[int, int] = {}

    def __contains__(self, node: object) -> bool:
        return node in self._members

    def __iter__(self) -> Iterator[int]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def could_hold(self, gang_size: int) -> bool:
        """Whether a gang fits if all nodes are empty."""
        return self.fewest(gang_size) <= len(self.nodes)

    def fewest(self, gang_size: int) -> int:
        """How many nodes a gang takes if all are empty; more than there are if it never fits."""
        known = self._fewest.get(gang_size)
        if known is None:
            known = self._fewest[gang_size] = self._count_fewest(gang_size)
        return known

    def _count_fewest(self, gang_size: int) -> int:
        for count, size in enumerate(self._sizes, start=1):
            gang_size -= size
            if gang_size <= 0:
                return count
        return len(self._sizes) + 1


# ---- Device types: how many there are of each, which one a job runs on, which one it would rather have.


def devices_by_type(view: View) -> dict[str, int]:
    """Of the nodes that are there, in their order."""
    sizes = [node.device_count for node in view.nodes]
    return _by_type(view, sizes)


def free_by_type(view: View) -> dict[str, int]:
    return _by_type(view, view.free_counts)


def _by_type(view: View, counts: Sequence[int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for node, is_here, count in zip(view.nodes, view.is_present, counts, strict=True):
        if is_here:
            sums[node.device_type] = sums.get(node.device_type, 0) + count
    return sums


def type_of(job: Job, view: View) -> str:
    """The type a running job runs on."""
    return view.nodes[job.allocation[0][0]].device_type


def fastest_first(spec: JobSpec, present: Iterable[str]) -> tuple[str, ...]:
    """The types a job may use. Where rates are equal or unknown, in the order given."""
    return tuple(sorted((kind for kind in present if spec.allows(kind)), key=lambda kind: -spec.rate_hz(kind)))
