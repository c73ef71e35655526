"""Jobs kept sorted by their keys."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from weft.policies.base import Key

T = TypeVar("T")


class SortedJobs(Generic[T]):
    """Parallel lists: moving pointers in memory is cheaper than any tree at these sizes."""

    __slots__ = ("items", "keys")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.items: list[T] = []

    def insert(self, key: Key, item: T) -> None:
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.items.insert(at, item)

    def remove(self, key: Key) -> None:
        at = bisect_left(self.keys, key)
        assert self.keys[at] == key
        del self.keys[at], self.items[at]

    def after(self, key: Key) -> int:
        """The position of the first that comes after this key."""
        return bisect_right(self.keys, key)


class WeightedJobs(Generic[T]):
    """Ranked, and each stands for a number of devices."""

    __slots__ = ("items", "keys", "weights")

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.items: list[T] = []
        self.weights: list[int] = []

    def append(self, key: Key, item: T, weight: int) -> None:
        """For keys that come in order."""
        self.keys.append(key)
        self.items.append(item)
        self.weights.append(weight)

    def insert(self, key: Key, item: T, weight: int) -> None:
        at = bisect_left(self.keys, key)
        self.keys.insert(at, key)
        self.items.insert(at, item)
        self.weights.insert(at, weight)

    def remove(self, key: Key) -> None:
        at = bisect_left(self.keys, key)
        assert self.keys[at] == key
        del self.keys[at], self.items[at], self.weights[at]

    def after(self, key: Key) -> int:
        return bisect_right(self.keys, key)

    def weight_from(self, at: int) -> int:
        return sum(self.weights[at:])

    def covers_from(self, at: int, wanted: int) -> bool:
        """Whether those from a position on weigh so much; quick, because each weighs at least one."""
        return len(self.weights) - at >= wanted or self.weight_from(at) >= wanted
