"""Whether a holder is slower beside its guests than alone, and whether that is their doing."""

from __future__ import annotations

from weft.core.value import value
from weft.node.gauge import Window, typical

HI, LO = 0.02, 0.01


@value
class Evidence:
    """By how much steps take longer than alone, how far that may be off by chance, and how much of it is waiting.

    A step's time is what counts, but a machine's speed drifts, by more than is looked for. Waiting does not.
    """

    slower: float
    error: float
    waiting: float | None

    @property
    def harm(self) -> float:
        """By how much it is slower, by the measure that says more."""
        return max(self.slower, self.waiting or 0.0)

    @property
    def is_slow(self) -> bool:
        return (self.waiting is not None and self.waiting > HI) or self.slower > HI + 2 * self.error

    @property
    def is_fine(self) -> bool:
        if self.waiting is not None:
            return self.waiting < LO and self.slower < LO + self.error
        return self.slower < LO and self.slower + self.error < HI


def evidence(baseline: Window, seen: Window, noise: float) -> Evidence:
    alone, now = typical(baseline.steps), typical(seen.steps)
    error = (max(alone.error, noise) ** 2 + max(now.error, noise) ** 2) ** 0.5
    waiting = None if baseline.waited is None or seen.waited is None else seen.waited - baseline.waited
    return Evidence(now.typical_s / alone.typical_s - 1, error, waiting)
