"""The nodes of one device type, and how few of them could hold a gang."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
