"""What packing jobs on one device gains, how certain that is, and whether the measurement is plausible.

Each job is measured against itself: its rate beside the others as a part of its rate alone, both from one window of
time. Repeated rounds of that give an interval at `CONFIDENCE`. A verdict needs an interval that excludes the opposite
one, or one no wider than the gain that is worth having.

Step counts come from pages that a job can write to. A job that overstates its own rate beside the others makes the sum
impossible, or shows in what the others lose: no job stays where it makes less than half of what it would in turns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import Enum

from weft.core.value import value

CONFIDENCE = 0.95
LEAST_ROUNDS = 3
STUDENT = (4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""The two-sided quantile of Student's distribution at `CONFIDENCE` for 2, 3, … degrees of freedom."""
MOST_EACH, MOST_MEAN = 1.25, 1.05
"""No job is a quarter faster beside others than alone, and not all of them by a twentieth on average: cores that sleep
less beside others account for 5 %."""
LEAST_OF_TURNS = 0.5
"""A job that makes less than this part of its rate in turns is not kept, whatever the others report. In
simulated worlds a light job beside a heavy one drops to two thirds of its rate in turns."""
UNKNOWN = 1.0
"""Half the width of the interval of a ratio with too few rounds."""


@value
class Share:
    """A job's rate beside others as a part of its rate alone, and half the width of the interval around it."""

    ratio: float
    half_width: float = 0.0

    @property
    def is_possible(self) -> bool:
        is_number = math.isfinite(self.ratio) and math.isfinite(self.half_width)
        return is_number and 0.0 < self.ratio <= MOST_EACH and self.half_width >= 0.0


class Outcome(Enum):
    KEEP = "keep"
    UNDO = "undo"
    UNSURE = "unsure"
    IMPOSSIBLE = "impossible"


@value
class Gain:
    """The summed rate of all jobs, relative to one job alone on the device. 1 is no gain."""

    total: float
    half_width: float
    outcome: Outcome


def share_of(rounds: Sequence[float]) -> Share:
    """From one ratio per round. With too few rounds the interval is unknown."""
    if not rounds:
        return Share(math.nan, UNKNOWN)
    mean = sum(rounds) / len(rounds)
    if len(rounds) < LEAST_ROUNDS:
        return Share(mean, UNKNOWN)
    variance = sum((each - mean) ** 2 for each in rounds) / (len(rounds) - 1)
    quantile = STUDENT[min(len(rounds) - LEAST_ROUNDS, len(STUDENT) - 1)]
    return Share(mean, quantile * math.sqrt(variance / len(rounds)))


def most_together(jobs: int) -> float:
    """The largest plausible sum of ratios for that many jobs."""
    return MOST_MEAN * jobs


def judge(shares: Sequence[Share], margin: float) -> Gain:
    """Whether packed jobs stay packed. Intervals add up: a change of load moves all ratios the same way."""
    total, half_width = sum(each.ratio for each in shares), sum(each.half_width for each in shares)
    return Gain(total, half_width, _outcome(shares, total, half_width, margin))


def _outcome(shares: Sequence[Share], total: float, half_width: float, margin: float) -> Outcome:
    if not all(each.is_possible for each in shares) or not total <= most_together(len(shares)):
        return Outcome.IMPOSSIBLE
    if any(each.ratio + each.half_width < LEAST_OF_TURNS / len(shares) for each in shares):
        return Outcome.UNDO
    if half_width <= margin:
        return Outcome.KEEP if total > 1.0 + margin else Outcome.UNDO
    if total > 1.0 + margin and total - half_width > 1.0:
        return Outcome.KEEP
    return Outcome.UNDO if total + half_width <= 1.0 + margin else Outcome.UNSURE
