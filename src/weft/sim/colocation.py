"""How fast jobs run that share a device: packed, in lanes, or throttled by the node."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from weft.core.errors import InputError
from weft.core.sharing import FILLED
from weft.core.value import value

FORM = "device type -> job -> partner -> [rate, partner's rate], and \"null\" -> its rate alone, as in Gavel's"


@value
class Profile:
    """What running a job alone on one device shows of it."""

    utilisation: float = 1.0
    """The share of the device's time that it keeps busy when alone, above 0 and at most 1."""
    weight: float = 1.0
    """How much it gets of a device that all want more of than there is: long kernels and large batches get more."""
    persistent_bytes: int = 0
    ephemeral_bytes: int = 0
    model: str = ""


class Interference(Protocol):
    """A model of interference: the rates of a group, each above 0 and at most 1."""

    def rates(self, kind: str, profiles: Sequence[Profile]) -> tuple[float, ...]:
        """For jobs that compute together on one device of this type, each one's rate relative to running alone."""
        ...


@value
class Fitted:
    """A device has one second a second to give, and a job that is not alone on it works less well with what it gets.

    Each job asks for its utilisation. While the sum is at most 1, all get what they ask for. Above that the device is
    shared by weight, and no job gets more than it asks for. Then each is slower by 1 + contention × the utilisation of
    the others, which is what caches, memory bandwidth and the host's cores cost. A further job never helps any other.
    """

    contention: float = 0.12

    def rates(self, kind: str, profiles: Sequence[Profile]) -> tuple[float, ...]:
        if len(profiles) == 1:
            return (1.0,)
        asked = sum(profile.utilisation for profile in profiles)
        level = _level(profiles) if asked > 1.0 else float("inf")
        return tuple(
            min(1.0, level * each.weight / each.utilisation) / (1.0 + self.contention * (asked - each.utilisation))
            for each in profiles
        )


def _level(profiles: Sequence[Profile]) -> float:
    """What a weight of 1 gets when the device is given away whole: jobs that ask for little are served first."""
    left, weight = 1.0, sum(profile.weight for profile in profiles)
    for each in sorted(profiles, key=lambda profile: profile.utilisation / profile.weight):
        if each.utilisation / each.weight >= left / weight:
            break
        left -= each.utilisation
        weight -= each.weight
    return left / weight


Pairs = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By type, job and partner, all as `plain` writes them: the job's relative rate beside that partner."""


@value
class Table:
    """Measured pairs, found by the names of the models; what was not measured is as `fitted` says.

    A job among several is slowed by each of them in turn: the product over the measured pairs, times what the fitted
    model says of it among those with which it was not measured. So here too a further job never helps any other.
    """

    source: str
    pairs: Pairs
    fitted: Fitted

    def rates(self, kind: str, profiles: Sequence[Profile]) -> tuple[float, ...]:
        if len(profiles) == 1:
            return (1.0,)
        measured = self.pairs.get(plain(kind), {})
        names = [plain(profile.model) for profile in profiles]
        return tuple(self._rate(measured.get(name, {}), at, kind, names, profiles) for at, name in enumerate(names))

    def _rate(
        self, beside: Mapping[str, float], at: int, kind: str, names: Sequence[str], profiles: Sequence[Profile]
    ) -> float:
        rate, unmeasured = 1.0, [profiles[at]]
        for other, name in enumerate(names):
            if other != at and name in beside:
                rate *= beside[name]
            elif other != at:
                unmeasured.append(profiles[other])
        return rate * self.fitted.rates(kind, unmeasured)[0]


def read_table(path: Path, fitted: Fitted) -> Table:
    """Pairs of single-device jobs, from a file of steps per second. A pair at 0 did not run: it was not measured."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the interference file {path} cannot be read: {error}", f"a JSON file: {FORM}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}", FORM) from error
    try:
        pairs = {plain(kind): _of_one_type(jobs) for kind, jobs in given.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not a table of measured pairs: {error!r}", FORM) from error
    if not any(beside for jobs in pairs.values() for beside in jobs.values()):
        raise InputError(f"{path} has no measured pair of single-device jobs", FORM)
    return Table(str(path), pairs, fitted)


def _of_one_type(jobs: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for job, beside in jobs.items():
        model, alone_hz = _single(job), beside["null"]
        if not model or not alone_hz > 0:
            continue
        found[model] = {
            partner: min(1.0, rates[0] / alone_hz)
            for text, rates in beside.items()
            if text != "null" and (partner := _single(text)) and rates[0] > 0 and rates[1] > 0
        }
    return found


def _single(job: str) -> str:
    """The model of "('ResNet-18 (batch size 16)', 1)" in plain letters; nothing for a gang."""
    match = re.fullmatch(r"\(['\"](.*)['\"], *1\)", job)
    return plain(match[1]) if match else "" if job.startswith("(") else plain(job)


def plain(name: str) -> str:
    """A name in small letters and digits: people write ResNet-18 and resnet18."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# ---- How fast each of the jobs on one device runs: packed, in lanes, or throttled by the node.

LEAST = 1e-3
"""The rate of a throttled guest beside a holder that leaves nothing idle."""


@value
class ThrottleEffect:
    """What throttling does: which part of the idle time the guests compute, and the
    rate of the others beside them."""

    filled: float = FILLED
    beside: float = 0.99


AS_ASSUMED = ThrottleEffect()


@value
class Occupant:
    """A job that computes on a device, and under which rule."""

    profile: Profile
    lane: int = 0
    is_throttled: bool = False
    base: int = 0
    weight: int = 1

    def after(self, used_s: float) -> Occupant:
        """The same once it has used so much of its lane: as native/turnstile.c has it, in microseconds."""
        return replace(self, base=self.base + self.weight * int(used_s * 1e6)) if self.weight < 0 else self


def rates_on(
    kind: str, occupants: Sequence[Occupant], interference: Interference, held_back: ThrottleEffect = AS_ASSUMED
) -> list[float]:
    """Each one's rate relative to having the device for itself."""
    if len(occupants) == 1:
        return [1.0]
    first = [one for one in occupants if not one.is_throttled]
    if not first or len(first) == len(occupants):
        return _side_by_side(kind, occupants, interference)
    rates = iter(_side_by_side(kind, first, interference))
    at_most = _side_by_side(kind, occupants, interference)  # as if none were throttled
    idle = max(0.0, 1.0 - sum(one.profile.utilisation for one in first))
    share = held_back.filled * idle / (len(occupants) - len(first))
    return [
        max(LEAST, min(share / one.profile.utilisation, most)) if one.is_throttled else next(rates) * held_back.beside
        for one, most in zip(occupants, at_most, strict=True)
    ]


def _side_by_side(kind: str, occupants: Sequence[Occupant], interference: Interference) -> list[float]:
    """Lanes run beside each other; the members of one take turns, and a member that waits for data passes its turn
    on."""
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
