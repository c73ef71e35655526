"""Which update ends a step? Learnt from how a script's optimizers (or models) come round again."""

from typing import Dict, Hashable, List, Optional, Set, Tuple

from .predictor import Predictor
from .sites import Move, Site, Sites

MOST_NUMBERS = 4096
MOST_INNER = 16  # times that a loop inside a round comes round; one that does so more often makes rounds of its own
LONGEST_SHAPE = 64  # updates; what comes after them tells no round from another

Update = Tuple[Hashable, Optional[Site]]


class Cycle:
    """Members come by in rounds, and one round is one step.

    A round ends when the next one begins. That shows where the loop around its first update comes round (sites.py);
    where the places of the updates do not tell, when a member comes again. So each round is counted, but late: that it
    is over is seen inside the next one. Whether an update is the last of its round, which makes it a boundary, is
    foretold from the rounds before (predictor.py).

    A `phase` is what lies between two backward passes. Where only the order of the members is known, one that comes in
    the phase in which a round was closed belongs to that round still.
    """

    def __init__(self) -> None:
        self.sites = Sites()
        self._predictor = Predictor()
        self._first: Optional[Site] = None
        self._last: Update = (None, None)
        self._last_phase = 0
        self._round: Dict[Update, int] = {}  # how often each came
        self._members: Set[Hashable] = set()
        self._shape: List[int] = []
        self._move = Move.UNKNOWN  # how the last update was come to
        self._is_counted = False  # the present round
        self._closed_in: Optional[int] = None
        self._has_ended = False  # any round
        self._is_called_again = False  # there is a loop that cannot be seen, around all that was seen
        self._apart: Set[Tuple[Optional[Site], Optional[Site]]] = set()  # in loops of their own, one after the other
        self._numbers: Dict[Hashable, int] = {}
        self._steady: Optional[Update] = None  # it alone makes up each round, as in most scripts: seen at a glance
        self._repeats = 0

    @property
    def is_open(self) -> bool:
        """Members have come since the last round that was counted. If none follows, they were a round, unless the last
        of them has never ended one."""
        return bool(self._round) and not self._is_counted and not self._predictor.always_went_on

    def note(self, member: Hashable, phase: int, site: Optional[Site] = None) -> Tuple[int, bool]:
        """A member came by. How many earlier rounds ended unseen, and does this one end now?"""
        update = (member, site)
        if update == self._steady:
            self._repeats += 1
            self._closed_in = self._last_phase = phase
            return 0, True
        self._settle()
        missed, is_repeat = 0, len(self._shape) == 1 and update == self._last
        if not self._round:
            self._first = site
        elif self._begins_round(update, phase):
            missed = self._part(update) + self._end_round()
            self._first = site
        else:
            self._predictor.went_on()
        self._last_phase = phase
        closes = self._predictor.ends(self._add(update)) and not self._is_counted
        if closes:
            self._is_counted = self._has_ended = True
            self._closed_in = phase
            if is_repeat and self._predictor.is_certain:
                self._steady = update
        return missed, closes

    def _settle(self) -> None:
        """What was steady so far, is not any more; the predictor has not been told of its rounds yet."""
        if self._steady is not None:
            self._predictor.repeated(self._repeats)
            self._steady, self._repeats = None, 0

    def _begins_round(self, update: Update, phase: int) -> bool:
        member, site = update
        move = self.sites.move(self._first, self._last[1], site)
        if move is Move.BACK:
            self._is_called_again = True
        if move is Move.BESIDE and self._is_called_again:
            move = Move.INNER
        self._move = move
        if move in (Move.ON, Move.OUT):
            return (self._first, site) in self._apart or (move is Move.OUT and member in self._members)
        if move is Move.INNER:
            return self._round.get(update, 0) >= MOST_INNER
        if move is Move.BESIDE:
            return update in self._round
        if move is Move.UNKNOWN or (site is self._last[1] and update not in self._round):
            # Only the order is known; or several members are stepped in one place, by a loop over them or in backward.
            if member in self._members or self._closed_in not in (None, phase):
                return True
            # One that was never seen, in a place where rounds have ended without it: a new model is trained there.
            is_new = self._has_ended and update not in self._numbers
            return is_new and move is not Move.UNKNOWN and phase != self._last_phase
        return True

    def _part(self, update: Update) -> int:
        """How many rounds of its own an inner loop has made out of the round that ends, if it is found to make any."""
        pair = (self._first, update[1])
        if self._move not in (Move.BESIDE, Move.INNER) or pair in self._apart:
            return 0
        self._apart.add(pair)
        return self._round[update]

    def _end_round(self) -> int:
        """How many rounds are to be counted for it."""
        self._predictor.ended(self._number(tuple(self._shape)), self._is_counted)
        missed = 0 if self._is_counted else 1
        self._round.clear()
        self._members.clear()
        self._shape.clear()
        self._is_counted, self._closed_in, self._has_ended = False, None, True
        return missed

    def _add(self, update: Update) -> Tuple[int, int]:
        """The number of this update and how often it came in this round."""
        times = self._round[update] = self._round.get(update, 0) + 1
        self._members.add(update[0])
        self._last = update
        number = self._number(update)
        if len(self._shape) < LONGEST_SHAPE:
            self._shape.append(number)
        return number, times

    def _number(self, thing: Hashable) -> int:
        number = self._numbers.get(thing)
        if number is None:
            if (
                len(self._numbers) > MOST_NUMBERS
            ):  # optimizers are made all the time: what was learnt is of none of them
                self._numbers.clear()
                self._predictor = Predictor()
            number = self._numbers[thing] = len(self._numbers)
        return number
