"""What finished jobs tell of unfinished ones: samples of total device-time, and the Gittins index over them."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from weft.core.errors import InputError

GROWTH = 1.1
"""New samples count once there are a tenth more of them: an index that moved at every finish would move every job."""

TINY = 1e-9


class History:
    """Samples in device-seconds, sorted, with running sums."""

    def __init__(self, samples: Iterable[float] = ()) -> None:
        self._new: list[float] = list(samples)
        if not all(0 <= sample < math.inf for sample in self._new):
            raise InputError("a history has samples that are no device-seconds", "they are numbers, 0 or more")
        self._samples: list[float] = []
        self._sums: list[float] = [0.0]
        self.refresh()

    def __len__(self) -> int:
        return len(self._samples)

    def __repr__(self) -> str:
        return f"History of {len(self)} jobs"

    def add(self, device_s: float) -> None:
        self._new.append(device_s)

    def refresh(self) -> bool:
        """Let new samples count if there are enough of them; true if the indexes have changed."""
        if not self._new or len(self._samples) + len(self._new) < GROWTH * len(self._samples):
            return False
        self._samples = sorted([*self._samples, *self._new])
        self._sums = [0.0, *accumulate(self._samples)]
        self._new = []
        return True

    def index(self, attained: float, quantum: float) -> float:
        """P(S − a ≤ D | S > a) / E[min(S − a, D) | S > a] for service quantum D; 0 beyond all experience."""
        samples, sums = self._samples, self._sums
        first = bisect_right(samples, attained)
        longer = len(samples) - first
        if longer == 0:
            return 0.0
        last = bisect_right(samples, attained + quantum)
        done = last - first
        spent = sums[last] - sums[first] - done * attained + (longer - done) * quantum
        return done / max(spent, TINY)  # differences of large sums may come out as nothing, or less

    def best_index(self, attained: float) -> float:
        """The Gittins index proper: the supremum over quanta, which one of the samples attains."""
        first = bisect_right(self._samples, attained)
        ends = dict.fromkeys(self._samples[first:])
        return max((self.index(attained, end - attained) for end in ends), default=0.0)
