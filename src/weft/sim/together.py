"""How fast each of those runs who are together on one device: packed, in lanes, or held back by the node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.core.sharing import FILLED
from weft.core.value import value
from weft.sim.interference import Interference, Profile

LEAST = 1e-3
"""The rate of one who is held back beside somebody who leaves nothing idle."""


@value
class HeldBack:
    """What comes of holding guests back by their duty: which part of the time that is left idle they compute, and the
    rate of the others beside them."""

    filled: float = FILLED
    beside: float = 0.99


AS_ASSUMED = HeldBack()


@value
class Occupant:
    """One who computes on a device, and under which rule."""

    profile: Profile
    lane: int = 0
    is_throttled: bool = False
    base: int = 0
    weight: int = 1

    def after(self, used_s: float) -> Occupant:
        """Whose turn it is once it has used so much of its lane: as native/turnstile.c has it, in microseconds."""
        return replace(self, base=self.base + self.weight * int(used_s * 1e6)) if self.weight < 0 else self


def rates_on(
    kind: str, occupants: Sequence[Occupant], interference: Interference, held_back: HeldBack = AS_ASSUMED
) -> list[float]:
    """Each one's rate relative to having the device for itself."""
    if len(occupants) == 1:
        return [1.0]
    first = [one for one in occupants if not one.is_throttled]
    if not first or len(first) == len(occupants):
        return _side_by_side(kind, occupants, interference)
    rates = iter(_side_by_side(kind, first, interference))
    at_most = _side_by_side(kind, occupants, interference)  # as if nobody were held back
    idle = max(0.0, 1.0 - sum(one.profile.utilisation for one in first))
    share = held_back.filled * idle / (len(occupants) - len(first))
    return [
        max(LEAST, min(share / one.profile.utilisation, most)) if one.is_throttled else next(rates) * held_back.beside
        for one, most in zip(occupants, at_most, strict=True)
    ]


def _side_by_side(kind: str, occupants: Sequence[Occupant], interference: Interference) -> list[float]:
    """Lanes run beside each other; the members of one take turns, and who waits for its data passes its turn on."""
    names = [("lane", one.lane) if one.lane else ("alone", at) for at, one in enumerate(occupants)]
    slots: dict[tuple[str, int], list[Occupant]] = {}
    for name, one in zip(names, occupants, strict=True):
        slots.setdefault(name, []).append(one)
    felt = {name: _as_one([one.profile for one in members]) for name, members in slots.items()}
    rates = dict(zip(slots, interference.rates(kind, list(felt.values())), strict=True))
    found = []
    for name, one in zip(names, occupants, strict=True):
        rate = rates[name]
        if one.profile.weight != felt[name].weight:  # in its turns it has no more weight than it has of its own
            in_its_turn = felt | {name: replace(felt[name], weight=one.profile.weight)}
            rate = interference.rates(kind, list(in_its_turn.values()))[list(slots).index(name)]
        found.append(rate * _in_turn(one, slots[name]))
    return found


def _in_turn(one: Occupant, members: Sequence[Occupant]) -> float:
    """What a lane's member has of its lane: an equal part by time used, or by its base what those before it leave."""
    if one.weight > 0:
        return 1.0 / max(1.0, sum(member.profile.utilisation for member in members))
    before = sum(member.profile.utilisation for member in members if member.base < one.base)
    alike = sum(member.profile.utilisation for member in members if member.base == one.base)
    return max(1e-6, min(1.0, (1.0 - before) / alike))


def _as_one(members: Sequence[Profile]) -> Profile:
    """The members of a lane as the others feel them: as the heaviest, so that a further one is never a relief."""
    if len(members) == 1:
        return members[0]
    weight = max(profile.weight for profile in members)
    return replace(members[0], utilisation=min(1.0, sum(p.utilisation for p in members)), weight=weight, model="")
