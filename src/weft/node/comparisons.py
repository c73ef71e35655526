"""Packed pairs on this node: when each is compared with itself alone, and how that is brought about.

A pair is compared once both of its jobs step, and again later on. Meanwhile now the one and now the other stands at a
step boundary for about a second. Whoever is about to pause, to end or to be seated otherwise is let go first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from weft.core.errors import WeftError
from weft.core.value import value
from weft.node.comparison import (
    AGAIN_S,
    MOST_PHASE_S,
    RETRY_S,
    Compared,
    Comparison,
    Counted,
    Phase,
    Rates,
    Stretch,
)
from weft.node.containment import contained
from weft.node.gate import Gate
from weft.node.holding import Key
from weft.node.rank import furthest_behind
from weft.node.task import Task
from weft.runtime.page import layout

if TYPE_CHECKING:
    from weft.node.attempt import Attempt
    from weft.node.company import Company

FIRST_S, FIRST_STEPS = 1.0, 3
"""For so long both compute together before they are compared: what a job does before its first steps is no rate."""

Leases = tuple[tuple[Key, int], tuple[Key, int]]
"""Of a holder and its guest, each with its generation."""


@value
class Result:
    """What came of comparing one job of a pair."""

    key: Key
    generation: int
    beside: str
    compared: Compared
    window: int


class Comparisons:
    def __init__(self, company: Company) -> None:
        self._company = company
        self._pairs: dict[Leases, Pair] = {}
        self._results: list[Result] = []

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
        """Nobody stands for a comparison with it any more, nor does it."""
        for leases in [each for each in self._pairs if attempt.record.key in (each[0][0], each[1][0])]:
            self._pairs.pop(leases).let_go()

    def close(self) -> None:
        for pair in self._pairs.values():
            pair.let_go()
        self._pairs.clear()

    def taken(self) -> list[Result]:
        """The results there are since this was last asked."""
        taken, self._results = self._results, []
        return taken

    def _packed(self) -> Iterator[tuple[Attempt, Attempt]]:
        """A holder and its guest, with nobody beside the two, and neither in a lane or throttled."""
        for guest in self._company:
            seat = guest.record.seat
            if not (guest.is_settled and seat.is_guest) or seat.is_throttled or guest.record.lane:
                continue
            beside = self._company.beside(guest)
            if len(beside) == 1 and self._is_holder_of(beside[0], guest):
                yield beside[0], guest

    def _is_holder_of(self, holder: Attempt, guest: Attempt) -> bool:
        is_theirs = set(holder.record.devices) == set(guest.record.devices)
        is_free = holder.is_settled and not holder.record.seat.is_guest and not holder.record.lane
        return is_theirs and is_free and self._company.beside(holder) == [guest]


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
        """When all stood who should, and how far each had come; None before that."""
        self._stretches = (Stretch(), Stretch())

    def tick(self, now_s: float) -> list[Result]:
        """What is known in the end; nothing before."""
        counted = [each for gate in self._gates if (each := _counted(gate.task, now_s)) is not None]
        if len(counted) < len(self._jobs):
            self.let_go()  # one of them has no process that steps
            return []
        if self._comparison is None:
            self._begin_if_due(counted, now_s)
            return []
        try:
            return self._go_on(self._comparison, counted, now_s)
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
        self._phase_since_s, self._begun, self._stretches = now_s, None, (Stretch(), Stretch())

    def _go_on(self, comparison: Comparison, counted: list[Counted], now_s: float) -> list[Result]:
        computing = (comparison.phase is not Phase.GUEST, comparison.phase is not Phase.HOLDER)
        rates = self._measure(computing, counted, now_s)
        if rates is not None:
            self._comparison = comparison = comparison.after(rates)
            self._next_phase(now_s)
        elif now_s - self._phase_since_s > MOST_PHASE_S:
            return self._finish(comparison, now_s)
        return self._finish(comparison, now_s) if comparison.is_done else []

    def _measure(self, computing: tuple[bool, bool], counted: list[Counted], now_s: float) -> Rates | None:
        for gate, computes in zip(self._gates, computing, strict=True):
            if computes:
                gate.open()
            else:
                gate.shut()
        if not all(computes or gate.is_standing for gate, computes in zip(self._gates, computing, strict=True)):
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
        return Rates(found[0], found[1], (steps[0], steps[1]))

    def _finish(self, comparison: Comparison, now_s: float) -> list[Result]:
        self.let_go()
        if comparison.says_enough:
            self._due_s, self._wait_s = now_s + AGAIN_S, RETRY_S
        else:
            self._due_s, self._wait_s = now_s + self._wait_s, min(2 * self._wait_s, AGAIN_S)
        window = max(1, int(now_s * 1000))
        holder, guest = self._jobs
        return [
            Result(one.record.key, one.record.generation, other.record.job, compared, window)
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
