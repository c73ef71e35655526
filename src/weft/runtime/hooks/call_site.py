"""Where in a script an update is made, whether a loop has repeated between two such places, and which methods it calls.

A place is a chain of calls: for each frame from the outermost inwards, its code and the instruction it is at. CPython
lays instructions out in the order of the source, and a loop is an instruction that jumps back. So two places tell in
which order they are passed, and which loops have both inside them; no frame is kept for it.
"""

import opcode
import sys
from enum import Enum
from types import CodeType, FrameType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

MOST_SITES = 256  # code that is made anew all the time has no places
DEEPEST = 200  # frames; recursion that goes further has no places either
INSIDE = ("torch.", "weft_runtime.")  # modules between the script and the update: they are the same for all


class Move(Enum):
    """How a script came from the first and the last update of a round to this one."""

    UNKNOWN = "the places do not compare"
    ON = "further on in the same pass of the loop"
    OUT = "further on, and out of the loop that the first update is in"
    ROUND = "the loop around the first update came round"
    INNER = "a loop came round that does not have the first update in it"
    BESIDE = "as INNER, and the first update is in another such loop, or in none with this one"
    BACK = "back without a loop that could be seen: it is in C, or the function was called again"


class Loop(NamedTuple):
    depth: int  # of the frame, from the outermost
    first: int
    last: int  # instructions


class Site:
    """A chain of calls."""

    def __init__(self, chain: Tuple[Tuple[CodeType, int], ...]) -> None:
        self.chain = chain

    def loops(self) -> List[Loop]:
        """All loops around it, the outermost first."""
        return [
            Loop(depth, first, last)
            for depth, (code, at) in enumerate(self.chain)
            for first, last in _loops(code)
            if first <= at <= last
        ]


class Sites:
    """The sites seen so far, and how one gets from one to another."""

    def __init__(self) -> None:
        self._known: Dict[Tuple[int, ...], Site] = {}
        self._moves: Dict[Tuple[Site, Site, Site], Move] = {}

    def at(self, frame: Optional[FrameType]) -> Optional[Site]:
        """The site of an update whose call is in this frame or below it; None if it cannot be identified."""
        while frame is not None and str(frame.f_globals.get("__name__")).startswith(INSIDE):
            frame = frame.f_back
        key: List[int] = []
        above = frame
        while above is not None:
            key.append(id(above.f_code))
            key.append(above.f_lasti)
            above = above.f_back
        site = self._known.get(tuple(key))
        if site is None and frame is not None and len(self._known) < MOST_SITES and len(key) <= 2 * DEEPEST:
            site = self._known[tuple(key)] = Site(_chain(frame))  # which keeps the code, and with it the ids
        return site

    def move(self, first: Optional[Site], last: Optional[Site], now: Optional[Site]) -> Move:
        if first is None or last is None or now is None:
            return Move.UNKNOWN
        move = self._moves.get((first, last, now))
        if move is None:
            if len(self._moves) > MOST_SITES**2:
                self._moves.clear()
            move = self._moves[first, last, now] = _move(first, last, now)
        return move


def _move(first: Site, last: Site, now: Site) -> Move:
    depth = _parting(last, now)
    if depth is None:
        return Move.UNKNOWN
    if depth < len(now.chain) and last.chain[depth][1] < now.chain[depth][1]:
        return Move.OUT if _is_in_loop_without(first, now) else Move.ON
    around_both = _common_loops(last, now)
    if not around_both:
        return Move.BACK
    if around_both[-1] in _common_loops(first, now):
        return Move.ROUND
    return Move.INNER if _common_loops(first, now) and not _is_in_loop_without(first, now) else Move.BESIDE


def _parting(one: Site, other: Site) -> Optional[int]:
    """The first frame at which the two differ; how many there are if none does; None if the code differs there."""
    for depth, (mine, others) in enumerate(zip(one.chain, other.chain)):
        if mine != others:
            return depth if mine[0] is others[0] else None
    return len(one.chain) if len(one.chain) == len(other.chain) else None


def _common_loops(one: Site, other: Site) -> List[Loop]:
    depth = _parting(one, other)
    if depth is None:
        depth = next(at for at in range(len(one.chain) + 1) if one.chain[: at + 1] != other.chain[: at + 1]) - 1
    others = set(other.loops())
    return [loop for loop in one.loops() if loop.depth <= depth and loop in others]


def _is_in_loop_without(first: Site, now: Site) -> bool:
    return len(first.loops()) > len(_common_loops(first, now))


def _chain(frame: Optional[FrameType]) -> Tuple[Tuple[CodeType, int], ...]:
    chain = []
    while frame is not None:
        chain.append((frame.f_code, frame.f_lasti))
        frame = frame.f_back
    return tuple(reversed(chain))


_loops_of: Dict[CodeType, List[Tuple[int, int]]] = {}
NO_NEXT = ("RETURN", "RAISE", "RERAISE", "JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_NO_INTERRUPT")


def _loops(code: CodeType) -> List[Tuple[int, int]]:
    """The loops of this code, as ranges of instructions, outer ones before those inside them."""
    if code not in _loops_of:
        ranges: Dict[int, int] = {}
        for source, target in _jumps(code):
            if target < source:
                ranges[target] = max(source, ranges.get(target, 0))  # `continue` jumps back as well
        _loops_of[code] = sorted(ranges.items(), key=lambda loop: (loop[0], -loop[1]))
    return _loops_of[code]


def _jumps(code: CodeType) -> List[Tuple[int, int]]:
    """Those that are taken where nothing is raised. Handlers come after all other code, and jump back into it."""
    from dis import get_instructions, hasjabs, hasjrel  # torch has loaded it by now

    jumping = {*hasjabs, *hasjrel}
    instructions = {one.offset: one for one in get_instructions(code)}
    following = dict(zip(instructions, list(instructions)[1:]))
    found, reached, to_visit = [], set(), [0]
    while to_visit:
        at = to_visit.pop()
        if at in reached or at not in instructions:
            continue
        reached.add(at)
        one = instructions[at]
        if one.opcode in jumping and not one.opname.startswith("SETUP_"):
            found.append((at, one.argval))
            to_visit.append(one.argval)
        if not one.opname.startswith(NO_NEXT) and at in following:
            to_visit.append(following[at])
    return found


# ---- Calls of methods that no hook of PyTorch reports.
#
# A wrapper's frame would stand between the script and what it calls: warnings name the wrapper's file, and so do
# tracebacks and the callers that logging and inspect find. But a method is looked up before it is called: a descriptor
# can note the lookup, return the method itself, and leave no frame.

BY_NAME = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR")


class Looked:
    """In place of a class's function: calls `note(instance)` when an instance's method is looked up."""

    def __init__(self, function: Callable[..., Any], note: Callable[[Any], None]) -> None:
        self._function: Any = function
        self._note = note

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self._function
        self._note(instance)
        return self._function.__get__(instance, owner)


def note_lookups(owner: Any, name: str, note: Callable[[Any], None]) -> None:
    setattr(owner, name, Looked(owner.__dict__[name], note))


def is_by_name() -> bool:
    """Is the method written out where it is looked up, as for a call? Not so if hasattr asks for it. For a `note`."""
    frame = sys._getframe(3)  # above us: the note, the descriptor, the script
    return opcode.opname[frame.f_code.co_code[frame.f_lasti]] in BY_NAME
