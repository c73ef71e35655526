"""How fast jobs run that compute on one device at the same time, each relative to running there alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from weft.core.errors import InputError
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
    """One method: the rates of a group, each above 0 and at most 1."""

    def rates(self, kind: str, profiles: Sequence[Profile]) -> tuple[float, ...]:
        """For jobs that compute together on one device of this type, each one's rate relative to running alone."""
        ...


@value
class Fitted:
    """A device has one second a second to give, and whoever is not alone on it works less well with what it gets.

    Each job asks for its utilisation. While the sum is at most 1, all get what they ask for. Above that the device is
    shared by weight, and nobody gets more than it asks for. Then each is slower by 1 + contention × the utilisation of
    the others, which is what caches, memory bandwidth and the host's cores cost. A further job never helps anybody.
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
    """What a weight of 1 gets when the device is given away whole: who asks for little is served first."""
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
    model says of it among those with which it was not measured. So here too a further job never helps anybody.
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
        told = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the interference file {path} cannot be read: {error}", f"a JSON file: {FORM}") from error
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON: {error}", FORM) from error
    try:
        pairs = {plain(kind): _of_one_type(jobs) for kind, jobs in told.items()}
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
