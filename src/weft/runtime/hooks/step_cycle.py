"""Which update ends a step, learnt from how a script's optimizers (or models) repeat."""

from collections import deque
from typing import Deque, Dict, Hashable, List, Optional, Set, Tuple

from .call_site import Move, Site, Sites

ORDERS = (1, 2, 4, 8, 16)  # how many earlier rounds a context has
LONGEST_RUN = 4096
MOST_CONTEXTS = 1 << 14
MOST_DOUBT = 6
SURE_AGAIN = 32  # right predictions in a row after which less is doubted
NEARLY_ALWAYS = 0.9
FEW = 1 / 16  # how much one outcome counts for the share of the irregular
PATIENCE = 4  # irregular rounds without an end predicted, at most
MOST_NUMBERS = 4096
MOST_INNER = 16  # times that a loop inside a round comes round; one that does so more often makes rounds of its own
LONGEST_SHAPE = 64  # updates; later ones do not distinguish rounds

Outcomes = List[int]  # did it end the round last time (0, 1), how often in a row, the longest such row that was broken
Update = Tuple[Hashable, Optional[Site]]


class Cycle:
    """Members are stepped in rounds, and one round is one step.

    A round ends when the next one begins. That shows where the loop around its first update comes round (call_site.py);
    where the places of the updates do not show it, when a member comes again. So each round is counted, but late: its
    end is seen inside the next one. Whether an update is the last of its round, which makes it a boundary, is
    predicted from the rounds before (Predictor).

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
        self._move = Move.UNKNOWN  # how the script came to the last update
        self._is_counted = False  # the present round
        self._closed_in: Optional[int] = None
        self._has_ended = False  # any round
        self._is_called_again = False  # there is a loop that cannot be seen, around all that was seen
        self._apart: Set[Tuple[Optional[Site], Optional[Site]]] = set()  # in loops of their own, one after the other
        self._numbers: Dict[Hashable, int] = {}
        self._steady: Optional[Update] = None  # it alone makes up each round, as in most scripts: the fast path
        self._repeats = 0

    @property
    def is_open(self) -> bool:
        """Members have come since the last round that was counted. If none follows, they were a round, unless the last
        of them has never ended one."""
        return bool(self._round) and not self._is_counted and not self._predictor.always_went_on

    def note(self, member: Hashable, phase: int, site: Optional[Site] = None) -> Tuple[int, bool]:
        """A member was stepped. How many earlier rounds ended unseen, and does this one end now?"""
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
        """The steady update is over; hand its rounds to the predictor."""
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


class Predictor:
    """Whether a round ends with the update that was just made, predicted from how earlier rounds went.

    An update is looked up in contexts: by itself, then with the rounds before it, more and more of them, then with how
    often the same round came in a row. The first context in which it has always gone the same way decides. That
    suffices where rounds repeat with a period of up to 16, or where one follows up to 4096 equal ones. An update that
    is consistent in no context is irregular: it ends the round if it nearly always did, and otherwise at every fourth
    round at most.
    """

    def __init__(self) -> None:
        self._alone: Dict[Hashable, Outcomes] = {}
        self._contexts: Dict[Tuple[Hashable, ...], Outcomes] = {}
        self._rounds: Deque[int] = deque(maxlen=ORDERS[-1])
        self._in_a_row = 0
        self._share = 0.5  # of irregular updates, those that ended their round
        self._doubt = 0
        self._right = 0
        self._unpredicted = 0  # rounds since one whose end was predicted
        self._update: Hashable = None  # the last one
        self._predicted: Optional[bool] = None  # what contexts with earlier rounds predicted

    def ends(self, update: Hashable) -> bool:
        """An update was made. Does its round end with it, as far as can be known?"""
        self._update, self._predicted = update, None
        alone = self._alone.get(update)
        if alone is None:
            return False
        if not alone[2]:
            return bool(alone[0])
        for context in self._of(update):
            seen = self._contexts.get(context)
            if seen is not None and seen[1] > max(seen[2], self._doubt):
                self._predicted = bool(seen[0])
                return self._predicted
        return self._share > NEARLY_ALWAYS or (self._share > FEW and self._unpredicted >= PATIENCE)

    @property
    def is_certain(self) -> bool:
        """Whatever rounds came before, it was always the same with the last update."""
        return not self._alone[self._update][2]

    @property
    def always_went_on(self) -> bool:
        """The last update was seen before, and never ended its round."""
        return self._alone.get(self._update, [1, 0, 0])[::2] == [0, 0]

    def repeated(self, times: int) -> None:
        """The last round came `times` more often, with a certain end each time."""
        if times:
            self._alone[self._update][1] += times
            self._unpredicted = 0
            self._in_a_row = min(self._in_a_row + times, LONGEST_RUN)
            self._rounds.extend([self._rounds[-1]] * min(times, ORDERS[-1]))

    def went_on(self) -> None:
        """The round did not end with the last update: another one belongs to it."""
        self._learn(0)

    def ended(self, shape: int, was_predicted: bool) -> None:
        """The round ended with the last update; `shape` distinguishes it from rounds with other updates."""
        self._learn(1)
        self._unpredicted = 0 if was_predicted else self._unpredicted + 1
        is_same = bool(self._rounds) and self._rounds[-1] == shape
        self._in_a_row = min(self._in_a_row + 1, LONGEST_RUN) if is_same else 1
        self._rounds.append(shape)

    def _learn(self, outcome: int) -> None:
        alone = self._alone.setdefault(self._update, [outcome, 0, 0])
        _add(alone, outcome)
        if not alone[2]:
            return
        self._share += (outcome - self._share) * FEW
        if self._predicted is not None:
            self._judge(self._predicted == bool(outcome))
        for context in self._of(self._update):
            _add(self._contexts.setdefault(context, [outcome, 0, 0]), outcome)
        if len(self._contexts) > MOST_CONTEXTS:
            self._contexts.clear()

    def _judge(self, was_right: bool) -> None:
        """Wrong predictions, which happen by chance with irregular updates, raise the evidence that is required."""
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
