"""Clusters as people write them: 64x8:V100,16x4:K80 is 64 nodes of 8 V100 each and 16 of 4 K80."""

from __future__ import annotations

import re
from itertools import groupby

from weft.core.errors import InputError
from weft.core.values import Cluster, Node, nodes_of

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
