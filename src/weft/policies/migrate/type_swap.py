"""AlloX's matching, for jobs that run: two of them change their device types if both together end sooner for it.

Which jobs run is the order's choice, and each starts on the fastest type that has room for it. So the first has the
fast type, though it may gain little by it. Taken as matching, with all places taken and one job in each, the least sum
of completion times between two types is found by exchanges: what one saves does not depend on its partner. So
the pairs are those that save the most on either side, while both together save more than the two moves cost. Of more
types each two are looked at in turn, which leaves out what only three could gain by changing in a circle.

How long jobs will run on is not known: the guess is as long again as they have run, as for every move.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from weft.core.job import Job
from weft.core.view import View
from weft.policies.order.quota import QuotaClasses
from weft.policies.plan.free_devices import type_of
from weft.policies.plan.preemption import placement_of

NEVER = math.inf
Form = tuple[int, ...]
"""How many devices of each of its nodes a gang has: only places of one form are exchanged."""


@dataclass(frozen=True, slots=True)
class SwapSide:
    """A job, and what it would save on the other type: so many seconds by now, and so many more each second."""

    job: Job
    saved_s: float
    slope: float


@dataclass
class TypeSwap:
    """No guaranteed job is moved to a slower type for the sake of others."""

    classes: QuotaClasses
    pays_at_s: float = field(default=NEVER, init=False)
    """When the next exchange begins to pay, as of the last look, if all goes on as it is."""

    def pairs(self, view: View, movable: Iterable[Job], cost_s: float) -> list[tuple[Job, Job]]:
        """The pairs that change places now; no job twice."""
        self.pays_at_s = NEVER
        places: dict[Form, dict[str, list[Job]]] = {}
        for job in movable:
            if job.spec.step_rate_hz:
                form = tuple(sorted(count for _, count in placement_of(job)))
                places.setdefault(form, {}).setdefault(type_of(job, view), []).append(job)
        found: list[tuple[Job, Job]] = []
        moved: set[str] = set()
        for by_type in places.values():
            for here, there in combinations(by_type, 2):
                sides = [
                    self._trades(view, by_type[one], one, other, cost_s)
                    for one, other in ((here, there), (there, here))
                ]
                for both in self._paying(view.now, *sides):
                    if moved.isdisjoint((both[0].id, both[1].id)):
                        moved.update((both[0].id, both[1].id))
                        found.append(both)
        return found

    def _trades(self, view: View, jobs: Iterable[Job], here: str, there: str, cost_s: float) -> list[SwapSide]:
        """Those that save the most first."""
        trades = []
        for job in jobs:
            slope = 1.0 - job.spec.rate_hz(here) / job.spec.rate_hz(there)
            if job.spec.allows(there) and (slope >= 0 or not self.classes.is_guaranteed(job)):
                trades.append(SwapSide(job, slope * job.run_s(view.now) - cost_s, slope))
        return sorted(trades, key=lambda one: (-one.saved_s, one.job.tie))

    def _paying(self, now: float, ones: list[SwapSide], others: list[SwapSide]) -> Iterator[tuple[Job, Job]]:
        for one, other in zip(ones, others, strict=False):
            if one.saved_s + other.saved_s <= 0:
                break
            yield one.job, other.job
        if ones and others:
            self._expect(now, ones[0], others[0])
            self._expect(now, *(max(side, key=lambda trade: trade.slope) for side in (ones, others)))

    def _expect(self, now: float, one: SwapSide, other: SwapSide) -> None:
        """When a pair that lacks something now begins to pay."""
        slope = one.slope + other.slope
        if slope > 0:
            self.pays_at_s = min(self.pays_at_s, now - (one.saved_s + other.saved_s) / slope)
