"""Which update ends a step? Learnt from the order in which a script's optimizers (or models) come round again."""

from typing import Hashable, Optional, Set, Tuple


class Cycle:
    """Members come by, and the last of each round closes it.

    Nobody says which member is the last. It is known when one that was seen in this round comes again: the round was
    over before, so the one before it was the last (`missed`: a round that ended unseen). From then on that member
    closes rounds as it comes, until rounds end without it, which shows in the same way.

    A `phase` is what lies between two backward passes. A member that comes after the round was closed, in the phase
    that closed it, belongs to that round still: it will close the next ones, unless it is known to be left out at
    times.
    """

    def __init__(self) -> None:
        self._round: Set[Hashable] = set()
        self._last: Optional[Hashable] = None
        self._closing: Optional[Hashable] = None
        self._closed_in: Optional[int] = None
        self._sometimes: Set[Hashable] = set()

    @property
    def is_first(self) -> bool:
        """Members have come and no round has ended yet, as far as could be seen."""
        return bool(self._round) and self._closing is None

    def note(self, member: Hashable, phase: int) -> Tuple[bool, bool]:
        """A member came by. Did an earlier round end unseen, and does this one end now?"""
        missed = False
        if member in self._round:
            missed = self._closed_in is None
            if missed:
                self._sometimes.add(self._closing)
                self._closing = self._last
            self._begin_round()
        elif self._closed_in is not None:
            if phase == self._closed_in:
                self._join_late(member)
                return False, False
            self._begin_round()
        self._round.add(member)
        self._last = member
        if member != self._closing:
            return missed, False
        self._closed_in = phase
        return missed, True

    def _begin_round(self) -> None:
        self._round.clear()
        self._closed_in = None

    def _join_late(self, member: Hashable) -> None:
        self._round.add(member)
        self._last = member
        if member not in self._sometimes:
            self._closing = member
