"""Packed pairs on this node, each compared with itself alone in one window of time.

The holder alone, both, the guest alone, both, the holder alone: one round. Everything in it is centred on one instant,
so a load of the machine that rises or falls steadily cancels out; a round in which the load leapt shows it, because
what was measured twice differs, and does not count. A pair is compared once both of its jobs step, and again later on.
A job that is about to pause, to end or to change its seat is released first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from weft.core.errors import WeftError
from weft.core.gain import LEAST_ROUNDS, Outcome, Share, judge, share_of
from weft.core.value import value
from weft.node.attempt.context import contained
from weft.node.devices.occupancy import Key
from weft.node.metrics.step_rate import FASTEST_HZ
from weft.node.task.gang_barrier import Gate
from weft.node.task.handle import Task
from weft.node.task.rank import furthest_behind
from weft.runtime.page import layout

if TYPE_CHECKING:
    from weft.node.attempt.attempt import Attempt
    from weft.node.devices.occupancy import NodeAttempts

WARM_UP_S, PHASE_S, STEPS = 0.2, 1.0, 2
"""What a phase takes at least once its first step is over. Of long steps two are enough."""
MOST_PHASE_S = 30.0
"""The gated job is not to wait for longer: a job of longer steps is not compared."""
MOST_ROUNDS = 10
LEAPT = 1.5
PRECISE = 0.05
"""A sum that is known so well needs no further round."""
RETRY_S, AGAIN_S = 10.0, 600.0
"""Until the next comparison: after one that said too little, twice as long each time; and after any other."""

FIRST_S, FIRST_STEPS = 1.0, 3
"""For so long both compute together before they are compared: what a job does before its first steps is no rate."""

Leases = tuple[tuple[Key, int], tuple[Key, int]]
"""Of a holder and its guest, each with its generation."""


class ComparisonPhase(Enum):
    HOLDER = "the holder alone"
    BOTH = "both"
    GUEST = "the guest alone"


PHASES = (ComparisonPhase.HOLDER, ComparisonPhase.BOTH, ComparisonPhase.GUEST, ComparisonPhase.BOTH)
OF_A_ROUND = len(PHASES)


@value
class Counted:
    """How far a job has come, and when its last step ended, as its page says."""

    step: int
    stepped_s: float


@value
class PhaseStretch:
    """Of one job in one phase: from its first step that counts on."""

    first: Counted | None = None
    newest: Counted | None = None

    def seen(self, now: Counted, begun: Counted, begun_s: float) -> PhaseStretch:
        """The step that was on when the phase began is not counted, nor what is still warming up."""
        if self.first is None:
            is_warm = now.step > begun.step and now.stepped_s >= begun_s + WARM_UP_S
            return PhaseStretch(now, now) if is_warm else self
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
class PhaseRates:
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

    phases: tuple[PhaseRates, ...] = ()

    @property
    def phase(self) -> ComparisonPhase:
        """The one to come."""
        return PHASES[len(self.phases) % OF_A_ROUND]

    def after(self, rates: PhaseRates) -> Comparison:
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


def _ratios(phases: Sequence[PhaseRates]) -> tuple[float, float] | None:
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


@value
class ComparisonResult:
    """What came of comparing one job of a pair."""

    key: Key
    generation: int
    beside: str
    compared: Compared
    window: int


class Comparisons:
    def __init__(self, node_attempts: NodeAttempts) -> None:
        self._node_attempts = node_attempts
        self._pairs: dict[Leases, Pair] = {}
        self._results: list[ComparisonResult] = []

    def tick(self, now_s: float) -> None:
        wanted = {_leases(holder, guest): (holder, guest) for holder, guest in self._packed()}
        for leases in self._pairs.keys() - wanted.keys():
            self._pairs.pop(leases).let_go()
        for leases, (holder, guest) in wanted.items():
            with contained(f"jobs {holder.record.job} and {guest.record.job} are not compared"):
                if leases not in self._pairs:
                    self._pairs[leases] = Pair(holder, guest, now_s)
                self._results += self._pairs[leases].tick(now_s)

    def part_with(self, attempt: Attempt) -> None:
        """End comparisons with it; all jobs of them compute."""
        for leases in [each for each in self._pairs if attempt.record.key in (each[0][0], each[1][0])]:
            self._pairs.pop(leases).let_go()

    def close(self) -> None:
        for pair in self._pairs.values():
            pair.let_go()
        self._pairs.clear()

    def taken(self) -> list[ComparisonResult]:
        """The results there are since this was last asked."""
        taken, self._results = self._results, []
        return taken

    def _packed(self) -> Iterator[tuple[Attempt, Attempt]]:
        """A holder and its guest, with no other job beside the two, and neither in a lane or throttled."""
        for guest in self._node_attempts:
            seat = guest.record.seat
            if not (guest.is_settled and seat.is_guest) or seat.is_throttled or guest.record.lane:
                continue
            beside = self._node_attempts.beside(guest)
            if len(beside) == 1 and self._is_holder_of(beside[0], guest):
                yield beside[0], guest

    def _is_holder_of(self, holder: Attempt, guest: Attempt) -> bool:
        is_theirs = set(holder.record.devices) == set(guest.record.devices)
        is_free = holder.is_settled and not holder.record.seat.is_guest and not holder.record.lane
        return is_theirs and is_free and self._node_attempts.beside(holder) == [guest]


class Pair:
    """One packed pair, as long as both have the leases that they have. The holder comes first everywhere."""

    def __init__(self, holder: Attempt, guest: Attempt, now_s: float) -> None:
        self._jobs = (holder, guest)
        self._gates = (Gate(holder.attached()), Gate(guest.attached()))
        self._due_s, self._wait_s = now_s + FIRST_S, RETRY_S
        self._at_first: list[Counted] | None = None
        self._comparison: Comparison | None = None
        self._phase_since_s = now_s
        self._begun: tuple[float, list[Counted]] | None = None
        """When the jobs to be gated were gated, and how far each had come; None before that."""
        self._stretches = (PhaseStretch(), PhaseStretch())

    def tick(self, now_s: float) -> list[ComparisonResult]:
        """What is known in the end; nothing before."""
        counted = [each for gate in self._gates if (each := _counted(gate.task, now_s)) is not None]
        if len(counted) < len(self._jobs):
            self.let_go()  # one of them has no process that steps
            return []
        if self._comparison is None:
            self._begin_if_due(counted, now_s)
            return []
        try:
            return self._advance(self._comparison, counted, now_s)
        except BaseException:
            self.let_go()
            raise

    def let_go(self) -> None:
        """Both compute."""
        for attempt, gate in zip(self._jobs, self._gates, strict=True):
            with suppress(WeftError):  # its page is damaged; it is about to be ended
                gate.open()
            attempt.is_compared = False
        self._comparison = None

    def _begin_if_due(self, counted: list[Counted], now_s: float) -> None:
        before = self._at_first = self._at_first or counted
        has_stepped = all(now.step >= then.step + FIRST_STEPS for now, then in zip(counted, before, strict=True))
        if has_stepped and now_s >= self._due_s:
            for attempt in self._jobs:
                attempt.is_compared = True
            self._comparison = Comparison()
            self._next_phase(now_s)

    def _next_phase(self, now_s: float) -> None:
        self._phase_since_s, self._begun, self._stretches = now_s, None, (PhaseStretch(), PhaseStretch())

    def _advance(self, comparison: Comparison, counted: list[Counted], now_s: float) -> list[ComparisonResult]:
        computing = (comparison.phase is not ComparisonPhase.GUEST, comparison.phase is not ComparisonPhase.HOLDER)
        rates = self._measure(computing, counted, now_s)
        if rates is not None:
            self._comparison = comparison = comparison.after(rates)
            self._next_phase(now_s)
        elif now_s - self._phase_since_s > MOST_PHASE_S:
            return self._finish(comparison, now_s)
        return self._finish(comparison, now_s) if comparison.is_done else []

    def _measure(self, computing: tuple[bool, bool], counted: list[Counted], now_s: float) -> PhaseRates | None:
        for gate, computes in zip(self._gates, computing, strict=True):
            if computes:
                gate.open()
            else:
                gate.shut()
        if not all(computes or gate.is_at_boundary for gate, computes in zip(self._gates, computing, strict=True)):
            return None
        if self._begun is None:
            self._begun = (now_s, counted)
        begun_s, begun = self._begun
        holder, guest = self._stretches = (
            self._stretches[0].seen(counted[0], begun[0], begun_s),
            self._stretches[1].seen(counted[1], begun[1], begun_s),
        )
        found = [each.rate_hz if computes else 0.0 for each, computes in zip((holder, guest), computing, strict=True)]
        if found[0] is None or found[1] is None:
            return None
        steps = tuple(each.steps if computes else 0 for each, computes in zip((holder, guest), computing, strict=True))
        return PhaseRates(found[0], found[1], (steps[0], steps[1]))

    def _finish(self, comparison: Comparison, now_s: float) -> list[ComparisonResult]:
        self.let_go()
        if comparison.says_enough:
            self._due_s, self._wait_s = now_s + AGAIN_S, RETRY_S
        else:
            self._due_s, self._wait_s = now_s + self._wait_s, min(2 * self._wait_s, AGAIN_S)
        window = max(1, int(now_s * 1000))
        holder, guest = self._jobs
        return [
            ComparisonResult(one.record.key, one.record.generation, other.record.job, compared, window)
            for one, other, compared in zip((holder, guest), (guest, holder), comparison.results(), strict=True)
        ]


def _leases(holder: Attempt, guest: Attempt) -> Leases:
    return ((holder.record.key, holder.record.generation), (guest.record.key, guest.record.generation))


def _counted(task: Task, now_s: float) -> Counted | None:
    """By the rank that is furthest behind; None before there is one."""
    ranks = task.ranks
    if not ranks:
        return None
    look = furthest_behind(ranks)
    return Counted(look.step, min(now_s, look.words[layout.HEARTBEAT] / 1e9))
