"""Finding the values of the fitted interference model that explain measured pairs best."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from weft.core.value import value
from weft.sim.colocation import Fitted, Profile

Rates = tuple[float, float]
Floats = NDArray[np.float64]
LARGEST_CONTENTION, LEAST_UTILISATION = 5.0, 0.05
LEAST_WEIGHT, LARGEST_WEIGHT = 0.05, 20.0
TIES = 1e-3
"""The pull towards 1 of a weight that no measurement determines."""


@value
class Fit:
    fitted: Fitted
    profiles: Mapping[str, Profile]
    errors: tuple[float, ...]
    """Of each relative rate: what the model says minus what was measured."""

    @property
    def root_mean_square(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))

    @property
    def median(self) -> float:
        return float(np.median(np.abs(self.errors)))


def fit_pairs(
    pairs: Mapping[tuple[str, str], Rates],
    utilisation: Mapping[str, float] | None = None,
    starts: int = 6,
    seed: int = 0,
) -> Fit:
    """From the relative rates of jobs beside each other; a job may run beside one like itself.

    Utilisations that were measured are taken as they are, else they are found too. A few starting points, because there
    are several valleys; a loss that large errors do not rule, because some measured pairs are beyond any model. Only
    the ratios of weights mean anything: their median is made 1.
    """
    names = sorted({name for pair in pairs for name in pair})
    busy = None if utilisation is None else np.array([utilisation[name] for name in names])
    at = {name: i for i, name in enumerate(names)}
    one = np.array([at[a] for a, b in pairs] + [at[b] for a, b in pairs])
    other = np.array([at[b] for a, b in pairs] + [at[a] for a, b in pairs])
    measured = np.array([rates[0] for rates in pairs.values()] + [rates[1] for rates in pairs.values()])
    unknown = len(names) if busy is None else 0
    least = np.array([0.0] + len(names) * [np.log(LEAST_WEIGHT)] + unknown * [LEAST_UTILISATION])
    most = np.array([LARGEST_CONTENTION] + len(names) * [np.log(LARGEST_WEIGHT)] + unknown * [1.0])
    middle = np.array([0.3] + len(names) * [0.0] + unknown * [0.6])
    chance = np.random.default_rng(seed)

    def off(values: Floats) -> Floats:
        logs = values[1 : 1 + len(names)]
        said = _modelled(float(values[0]), np.exp(logs), values[1 + len(names) :] if busy is None else busy, one, other)
        return np.concatenate([said - measured, TIES * (logs - logs.mean())])

    tries = [
        least_squares(
            off,
            np.clip(middle + (chance.normal(0.0, 0.2, middle.size) if i else 0.0), least + 1e-6, most - 1e-6),
            bounds=(least, most),
            loss="soft_l1",
            f_scale=0.1,
        )
        for i in range(starts)
    ]
    best = min(tries, key=lambda each: float(each.cost)).x
    weights = np.exp(best[1 : 1 + len(names)])
    found = best[1 + len(names) :] if busy is None else busy
    return _told(
        float(best[0]), dict(zip(names, zip(found, weights / np.median(weights), strict=True), strict=True)), pairs
    )


def _modelled(
    contention: float, weight: Floats, utilisation: Floats, one: NDArray[np.int64], other: NDArray[np.int64]
) -> Floats:
    """`Fitted.rates` for all pairs at once."""
    mine, yours = utilisation[one], utilisation[other]
    fair = weight[one] / (weight[one] + weight[other])
    crowded = np.where(mine <= fair, mine, np.where(yours <= 1 - fair, 1 - yours, fair))
    share = np.where(mine + yours <= 1, mine, crowded)
    rates: Floats = share / mine / (1 + contention * yours)
    return rates


def _told(contention: float, loads: Mapping[str, tuple[float, float]], pairs: Mapping[tuple[str, str], Rates]) -> Fit:
    fitted = Fitted(contention)
    profiles = {name: Profile(float(busy), float(weight), model=name) for name, (busy, weight) in loads.items()}
    errors = [
        said - seen
        for (a, b), rates in pairs.items()
        for said, seen in zip(fitted.rates("", (profiles[a], profiles[b])), rates, strict=True)
    ]
    return Fit(fitted, profiles, tuple(errors))
