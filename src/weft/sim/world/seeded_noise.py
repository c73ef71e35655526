"""What the seed decides. The same arguments give the same number in every run, in whatever order they come."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from statistics import NormalDist
from typing import TypeVar

from weft.core.values import Cluster

T = TypeVar("T")
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
