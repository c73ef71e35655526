"""The gang protocol against a model: ranks that need each other in every step, a coordinator that sees one by one."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from weft.node.task.gang_barrier import Meeting, meet
from weft.node.task.rank import RankPosition


@dataclass
class Rank:
    """Enters a step, can end it only once every rank has entered it, and gates at a boundary if it is asked to."""

    step: int = 0
    is_inside: bool = False
    is_asked: bool = False
    run_to: int = 0

    @property
    def is_gated(self) -> bool:
        return not self.is_inside and self.is_asked and self.step >= self.run_to

    def move(self, gang: list[Rank]) -> None:
        if self.is_inside:
            if all(other.step > self.step or (other.step == self.step and other.is_inside) for other in gang):
                self.step, self.is_inside = self.step + 1, False
        elif not self.is_gated:
            self.is_inside = True


class Coordinator:
    """Asks all, one after the other, then looks at one rank at a time and acts when it has seen all of them."""

    def __init__(self, gang: list[Rank]) -> None:
        self.gang = gang
        self.unasked = list(gang)
        self.seen: list[RankPosition] = []
        self.step = 0
        self.meeting = Meeting(0, (), False)

    def move(self) -> None:
        if self.unasked:
            self.unasked.pop(0).is_asked = True
            return
        rank = self.gang[len(self.seen)]
        self.seen.append(RankPosition(rank.step, rank.is_gated))
        if len(self.seen) == len(self.gang):
            self.meeting = meet(self.seen, self.step)
            assert self.meeting.step >= self.step, "the meeting step fell"
            self.step = self.meeting.step
            for laggard in self.meeting.laggards:
                self.gang[laggard].run_to = self.step
            self.seen = []


@given(st.integers(2, 5), st.lists(st.integers(0, 5), max_size=120))
def test_every_gang_comes_to_stand_at_one_step(size: int, moves: list[int]) -> None:
    gang = [Rank() for _ in range(size)]
    coordinator = Coordinator(gang)
    for mover in moves:  # any order at all, as unfair as it likes
        gang[mover].move(gang) if mover < size else coordinator.move()
    for _ in range(200):  # then everybody gets a chance, again and again
        for rank in gang:
            rank.move(gang)
        coordinator.move()
        if coordinator.meeting.is_met:
            break
    assert coordinator.meeting.is_met, "deadlock"
    assert {(rank.step, rank.is_inside) for rank in gang} == {(coordinator.step, False)}


def test_stopping_each_rank_at_its_next_boundary_would_deadlock() -> None:
    """Why laggards are let on: without it, this gang of two waits for ever."""
    first, second = gang = [Rank(), Rank()]
    second.move(gang)  # inside step 1, waiting for the first
    first.is_asked = second.is_asked = True
    assert first.is_gated
    second.move(gang)
    assert second.is_inside
    assert meet([RankPosition(0, True), RankPosition(0, False)]) == Meeting(step=1, laggards=(0,), is_met=False)


def test_a_rank_on_its_own_meets_where_it_gates() -> None:
    assert meet([RankPosition(7, True)]) == Meeting(step=7, laggards=(), is_met=True)


def test_a_later_step_can_be_asked_for() -> None:
    assert meet([RankPosition(3, True), RankPosition(3, True)], step=5) == Meeting(
        step=5, laggards=(0, 1), is_met=False
    )
