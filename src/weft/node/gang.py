"""Where a gang stops: at the same step on every rank, without a rank left waiting inside a collective.

Every rank is asked to gate at its next boundary. One that has gated behind the others has to go on, or those inside the
next step would wait for its part for ever. So the meeting step is the highest that any rank has completed, plus one for
a rank that is inside a step; gated ranks behind it run up to it. Meanwhile it may rise, and it never falls: each rank
gates at each boundary it comes to, so it rises at most by the steps that ranks were already inside of.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.core.value import value


@value
class Standing:
    """One rank as it was last seen."""

    step: int
    is_gated: bool


@value
class Meeting:
    """The step to meet at, who is behind it and waits to be let on, and whether everyone stands there."""

    step: int
    laggards: tuple[int, ...]
    is_met: bool


def meet(ranks: Sequence[Standing], step: int = 0) -> Meeting:
    """Where these ranks can meet, if `step` was the answer before."""
    step = max([step, *(rank.step if rank.is_gated else rank.step + 1 for rank in ranks)])
    behind = tuple(i for i, rank in enumerate(ranks) if rank.is_gated and rank.step < step)
    return Meeting(step, behind, all(rank.is_gated and rank.step == step for rank in ranks))
