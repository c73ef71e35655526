"""Two packed jobs, each against itself alone, in one window of time: which of them computes when, and what that shows.

The holder alone, both, the guest alone, both, the holder alone: one round. Everything in it is centred on one instant,
so a load of the machine that rises or falls steadily cancels out; a round in which the load leapt shows it, because
what was measured twice differs, and does not count. Nothing here looks at a clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum

from weft.core.gain import LEAST_ROUNDS, Outcome, Share, judge, share_of
from weft.core.value import value
from weft.node.gauge import FASTEST_HZ

WARM_UP_S, PHASE_S, STEPS = 0.2, 1.0, 2
"""What a phase takes at least once its first step is over. Of long steps two are enough."""
MOST_PHASE_S = 30.0
"""The one who stands meanwhile is not to wait for longer: a job of longer steps is not compared."""
MOST_ROUNDS = 10
LEAPT = 1.5
PRECISE = 0.05
"""A sum that is known so well needs no further round."""
RETRY_S, AGAIN_S = 10.0, 600.0
"""Until the next comparison: after one that said too little, twice as long each time; and after any other."""


class Phase(Enum):
    HOLDER = "the holder alone"
    BOTH = "both"
    GUEST = "the guest alone"


ORDER = (Phase.HOLDER, Phase.BOTH, Phase.GUEST, Phase.BOTH)
OF_A_ROUND = len(ORDER)


@value
class Counted:
    """How far a job has come, and when its last step ended, as its page says."""

    step: int
    stepped_s: float


@value
class Stretch:
    """Of one job in one phase: from its first step that counts on."""

    first: Counted | None = None
    newest: Counted | None = None

    def seen(self, now: Counted, begun: Counted, begun_s: float) -> Stretch:
        """The step that was on when the phase began is not counted, nor what is still warming up."""
        if self.first is None:
            is_warm = now.step > begun.step and now.stepped_s >= begun_s + WARM_UP_S
            return Stretch(now, now) if is_warm else self
        return replace(self, newest=now)

    @property
    def rate_hz(self) -> float | None:
        """None while there is too little, or what its page says cannot be."""
        if self.first is None or self.newest is None:
            return None
        steps, lasted_s = self.newest.step - self.first.step, self.newest.stepped_s - self.first.stepped_s
        if steps < STEPS or not lasted_s >= PHASE_S:
            return None
        rate_hz = steps / lasted_s
        return rate_hz if 0.0 < rate_hz <= FASTEST_HZ else None

    @property
    def steps(self) -> int:
        return self.newest.step - self.first.step if self.first and self.newest else 0


@value
class Rates:
    """What was measured in a phase; 0 for a job that stood."""

    holder_hz: float = 0.0
    guest_hz: float = 0.0
    steps: tuple[int, int] = (0, 0)


@value
class Compared:
    """One job: its rate beside the other, and what part that is of its rate alone."""

    rate_hz: float
    share: Share
    steps: int

    @property
    def alone_hz(self) -> float | None:
        """None if nothing came of it."""
        alone_hz = self.rate_hz / self.share.ratio if self.share.ratio > 0 else math.nan
        return alone_hz if math.isfinite(alone_hz) else None


@value
class Comparison:
    """The phases that are over, in order."""

    phases: tuple[Rates, ...] = ()

    @property
    def phase(self) -> Phase:
        """The one to come."""
        return ORDER[len(self.phases) % OF_A_ROUND]

    def after(self, rates: Rates) -> Comparison:
        return Comparison((*self.phases, rates))

    @property
    def is_done(self) -> bool:
        """Enough is known to decide, or this is as well as it gets."""
        rounds, rest = divmod(len(self.phases), OF_A_ROUND)
        if rest != 1 or rounds < LEAST_ROUNDS:
            return False
        return rounds >= MOST_ROUNDS or self.says_enough

    @property
    def says_enough(self) -> bool:
        shares = [each.share for each in self.results()]
        return judge(shares, PRECISE).outcome in (Outcome.KEEP, Outcome.UNDO)

    def results(self) -> tuple[Compared, Compared]:
        """Of the holder and of the guest."""
        rounds = [self.phases[at : at + OF_A_ROUND + 1] for at in range(0, len(self.phases) - OF_A_ROUND, OF_A_ROUND)]
        ratios = [ratio for each in rounds if (ratio := _ratios(each)) is not None]
        both = [rates for rates in self.phases if rates.holder_hz and rates.guest_hz]
        holder_hz, guest_hz = _mean([each.holder_hz for each in both]), _mean([each.guest_hz for each in both])
        steps = [sum(each.steps[at] for each in self.phases) for at in (0, 1)]
        return (
            Compared(holder_hz, share_of([holder for holder, _ in ratios]), steps[0]),
            Compared(guest_hz, share_of([guest for _, guest in ratios]), steps[1]),
        )


def _ratios(phases: Sequence[Rates]) -> tuple[float, float] | None:
    """Each one's rate beside the other over its rate alone; None if the load leapt in this round."""
    alone, both, guest, again, after = phases
    twice = (
        (alone.holder_hz, after.holder_hz),
        (both.holder_hz, again.holder_hz),
        (both.guest_hz, again.guest_hz),
    )
    if any(max(pair) > LEAPT * min(pair) for pair in twice):
        return None
    holder = (both.holder_hz + again.holder_hz) / (alone.holder_hz + after.holder_hz)
    return holder, (both.guest_hz + again.guest_hz) / (2.0 * guest.guest_hz)


def _mean(rates_hz: Sequence[float]) -> float:
    return sum(rates_hz) / len(rates_hz) if rates_hz else 0.0
