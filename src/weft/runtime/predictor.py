"""Does a round end with the update that was just made? Foretold from how earlier rounds went.

An update is looked up in contexts: by itself, then with the rounds before it, more and more of them, then with how
often the same round came in a row. The first context in which it has always gone the same way decides. That suffices
where rounds repeat with a period of up to 16, or where one comes after up to 4096 that are equal. What goes no one way
in any context is irregular: it ends the round if it nearly always did, and otherwise at every fourth round at most.
"""

from collections import deque
from typing import Deque, Dict, Hashable, List, Optional, Tuple

ORDERS = (1, 2, 4, 8, 16)  # how many earlier rounds a context has
LONGEST_RUN = 4096
MOST_CONTEXTS = 1 << 14
MOST_DOUBT = 6
SURE_AGAIN = 32  # right foretellings in a row after which less is doubted
NEARLY_ALWAYS = 0.9
FEW = 1 / 16  # how much one outcome counts for the share of the irregular
PATIENCE = 4  # irregular rounds without an end foretold, at most

Outcomes = List[int]  # did it end the round last time (0, 1), how often in a row, the longest such row that was broken


class Predictor:
    def __init__(self) -> None:
        self._alone: Dict[Hashable, Outcomes] = {}
        self._contexts: Dict[Tuple[Hashable, ...], Outcomes] = {}
        self._rounds: Deque[int] = deque(maxlen=ORDERS[-1])
        self._in_a_row = 0
        self._share = 0.5  # of irregular updates, those that ended their round
        self._doubt = 0
        self._right = 0
        self._unforetold = 0  # rounds since one whose end was foretold
        self._update: Hashable = None  # the last one
        self._foretold: Optional[bool] = None  # what contexts with earlier rounds said of it

    def ends(self, update: Hashable) -> bool:
        """An update was made. Does its round end with it, as far as can be known?"""
        self._update, self._foretold = update, None
        alone = self._alone.get(update)
        if alone is None:
            return False
        if not alone[2]:
            return bool(alone[0])
        for context in self._of(update):
            seen = self._contexts.get(context)
            if seen is not None and seen[1] > max(seen[2], self._doubt):
                self._foretold = bool(seen[0])
                return self._foretold
        return self._share > NEARLY_ALWAYS or (self._share > FEW and self._unforetold >= PATIENCE)

    @property
    def is_certain(self) -> bool:
        """Whatever rounds came before, it was always the same with the last update."""
        return not self._alone[self._update][2]

    @property
    def always_went_on(self) -> bool:
        """The last update was seen before, and never ended its round."""
        return self._alone.get(self._update, [1, 0, 0])[::2] == [0, 0]

    def repeated(self, times: int) -> None:
        """The last round came so often again, with a certain end each time."""
        if times:
            self._alone[self._update][1] += times
            self._unforetold = 0
            self._in_a_row = min(self._in_a_row + times, LONGEST_RUN)
            self._rounds.extend([self._rounds[-1]] * min(times, ORDERS[-1]))

    def went_on(self) -> None:
        """The round did not end with the last update: another one belongs to it."""
        self._learn(0)

    def ended(self, shape: int, was_foretold: bool) -> None:
        """The round ended with the last update; `shape` tells it from rounds with other updates."""
        self._learn(1)
        self._unforetold = 0 if was_foretold else self._unforetold + 1
        is_same = bool(self._rounds) and self._rounds[-1] == shape
        self._in_a_row = min(self._in_a_row + 1, LONGEST_RUN) if is_same else 1
        self._rounds.append(shape)

    def _learn(self, outcome: int) -> None:
        alone = self._alone.setdefault(self._update, [outcome, 0, 0])
        _add(alone, outcome)
        if not alone[2]:
            return
        self._share += (outcome - self._share) * FEW
        if self._foretold is not None:
            self._judge(self._foretold == bool(outcome))
        for context in self._of(self._update):
            _add(self._contexts.setdefault(context, [outcome, 0, 0]), outcome)
        if len(self._contexts) > MOST_CONTEXTS:
            self._contexts.clear()

    def _judge(self, was_right: bool) -> None:
        """Where contexts foretell wrongly, as they do by chance in what is irregular, more of them is asked for."""
        self._right = self._right + 1 if was_right else 0
        if not was_right:
            self._doubt = min(self._doubt + 1, MOST_DOUBT)
        elif self._right % SURE_AGAIN == 0:
            self._doubt = max(self._doubt - 1, 0)

    def _of(self, update: Hashable) -> List[Tuple[Hashable, ...]]:
        rounds = tuple(self._rounds)
        known = [(update, *rounds[-order:]) for order in ORDERS if order <= len(rounds)]
        return [*known, (update, "in a row", self._in_a_row, *rounds[-1:])]


def _add(outcomes: Outcomes, outcome: int) -> None:
    if outcomes[0] == outcome:
        outcomes[1] += 1
    else:
        outcomes[2] = max(outcomes[2], outcomes[1])
        outcomes[0], outcomes[1] = outcome, 1
