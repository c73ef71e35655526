"""Draws the jobs of a synthetic trace. The same parameters give the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from weft.core.errors import InputError
from weft.core.text import count_of, did_you_mean
from weft.sim.generate.distributions import LIKES, Band, Like
from weft.sim.trace.column_store import Floats, Ints

TENANT_EXPONENT = 1.4
"""The k-th tenant has 1/k^1.4 as many jobs as the first: near Philly's virtual clusters, with 50, 20, 12, 9, 2 … %."""
AMPLE = 5
"""So many times the jobs that could just load the cluster all at once do load it while they come and go."""


@dataclass(frozen=True)
class LoadSpec:
    """What to generate. A load of 0.9 would keep 90 % of the devices busy from the first arrival to the last.

    That is their mean: the cluster is empty at first, so where jobs run for as long as they come, it is near 0 at the
    start and twice as much at the end.
    """

    like: str
    jobs: int
    load: float
    devices: int
    seed: int = 0
    tenants: int = 1

    def check(self) -> None:
        if self.like not in LIKES:
            raise InputError(
                f'unknown cluster "{self.like}"', f"{did_you_mean(self.like, LIKES)}known: {', '.join(LIKES)}"
            )
        if self.jobs < 2:
            raise InputError(
                f"a load needs a first and a last arrival, not {count_of(self.jobs, 'job')}", "ask for 2 or more"
            )
        if not 0 < self.load < np.inf:
            raise InputError(f"a load of {self.load:g} cannot be offered", "0.9 means 90 % of the devices")
        for count, noun in ((self.devices, "devices"), (self.tenants, "tenants")):
            if count < 1:
                raise InputError(f"{count} {noun} are none", "ask for 1 or more")
        if self.seed < 0:
            raise InputError(f"the seed {self.seed} is below 0", "give 0 or more")


@dataclass(frozen=True)
class Drawn:
    """One entry a job, in the order of arrival; tenants are numbered from 1."""

    arrival_s: Floats
    duration_s: Floats
    gang_size: Ints
    tenant: Ints


def generate(spec: LoadSpec) -> Drawn:
    """Jobs like those of a published trace. Gangs larger than the cluster are not drawn."""
    spec.check()
    like = LIKES[spec.like]
    # A stream for each: what is asked of one does not change the others.
    for_gangs, for_durations, for_arrivals, for_tenants = _streams(spec.seed, 4)
    gang_size = _gang_sizes(like, for_gangs.random(spec.jobs), spec.devices)
    duration_s = _durations_s(like, gang_size, for_durations.random((2, spec.jobs)))
    arrival_s = _arrivals_under_load_s(spec, duration_s, gang_size, for_arrivals.random(spec.jobs - 2))
    shares: Floats = np.arange(1, spec.tenants + 1, dtype=np.float64) ** -TENANT_EXPONENT
    return Drawn(arrival_s, duration_s, gang_size, _picks(shares, for_tenants.random(spec.jobs)) + 1)


def _streams(seed: int, count: int) -> list[np.random.Generator]:
    return [np.random.Generator(np.random.PCG64(child)) for child in np.random.SeedSequence(seed).spawn(count)]


def _picks(shares: Floats, uniform: Floats) -> Ints:
    """For each uniform number a position in the shares, as often as its share says."""
    edges = np.cumsum(shares)
    positions: Ints = np.searchsorted(edges[:-1], uniform * edges[-1], side="right").astype(np.int64)
    return positions


def _gang_sizes(like: Like, uniform: Floats, largest: int) -> Ints:
    fitting = {size: share for size, share in like.gangs.items() if size <= largest}
    return np.array(list(fitting), np.int64)[_picks(np.array(list(fitting.values())), uniform)]


def _durations_s(like: Like, gang_size: Ints, uniform: Floats) -> Floats:
    band_of = np.searchsorted([band.largest_gang for band in like.bands], gang_size)
    duration_s = np.empty(len(gang_size))
    for i, band in enumerate(like.bands):
        inside = band_of == i
        duration_s[inside] = _mixed_s(band, *uniform[:, inside])
    # Whole seconds, as in the sources; none takes no time.
    return np.clip(np.rint(duration_s), 1.0, like.longest_s)


def _mixed_s(band: Band, which: Floats, where: Floats) -> Floats:
    parts = band.durations
    part = _picks(np.array([each.weight for each in parts]), which)
    median_s = np.array([each.median_s for each in parts])[part]
    sigma = np.array([each.sigma for each in parts])[part]
    spread: Floats = np.exp(sigma * ndtri(where))
    return median_s * spread


def _arrivals_under_load_s(spec: LoadSpec, duration_s: Floats, gang_size: Ints, uniform: Floats) -> Floats:
    """The load is met by the rate of arrivals alone: durations and gangs stay as they were drawn."""
    like, wanted = LIKES[spec.like], spec.load * spec.devices

    def busy_within(span_s: float) -> float:
        return busy_devices(arrivals_s(like, span_s, uniform), duration_s, gang_size)

    # If all work there is fell within the span, this would be it: less does, so the span is shorter.
    all_within_s = float((duration_s * gang_size).sum()) / wanted
    span_s = longest_span_s(busy_within, wanted, max(all_within_s, SHORTEST_SPAN_S))
    if span_s is None:
        at_once = busy_within(SHORTEST_SPAN_S)
        raise InputError(
            f"{spec.jobs:,} jobs are too few for a load of {spec.load:g}: "
            f"if they all came within a second, {at_once:,.0f} of {spec.devices:,} devices would be busy",
            f"ask for {AMPLE * spec.jobs * wanted / at_once:,.0f} or more, for fewer devices, or for less load",
        )
    return arrivals_s(like, span_s, uniform)


# ---- When the jobs come: by hour and weekday, within a span that gives them the load that is asked for.

HOUR_S = 3600.0
WEEK_S = 168 * HOUR_S
HOURS_S: Floats = np.arange(169, dtype=np.float64) * HOUR_S
SHORTEST_SPAN_S = 1.0
"""No job takes less, so within a shorter span each would still run when the last comes: that adds no load."""
HALVINGS = 50
"""Of a span that is known to a factor of 2: to the millisecond, however long."""


def arrivals_s(like: Like, span_s: float, uniform: Floats) -> Floats:
    """A Poisson process whose rate goes by hour and weekday, from a Monday, 0:00.

    Given how many arrive in a span, they are independent draws from the rate; the first and the last are its ends.
    """
    expected = np.concatenate([[0.0], np.cumsum(np.outer(like.by_weekday, like.by_hour).ravel())])
    weeks, rest_s = divmod(span_s, WEEK_S)
    in_span = weeks * expected[-1] + np.interp(rest_s, HOURS_S, expected)
    week, rest = np.divmod(np.sort(uniform) * in_span, expected[-1])
    between_s = np.minimum(week * WEEK_S + np.interp(rest, expected, HOURS_S), span_s)
    return np.concatenate([[0.0], between_s, [span_s]])


def busy_devices(arrival_s: Floats, duration_s: Floats, gang_size: Ints) -> float:
    """How many devices the jobs would hold on the average until the last arrives, if none of them waited.

    What they do later is not counted: Philly's longest runs for weeks, which loads nothing while the others come.
    """
    span_s = float(arrival_s[-1])
    return float((gang_size * np.minimum(duration_s, span_s - arrival_s)).sum()) / span_s


def longest_span_s(busy_within: Callable[[float], float], wanted: float, longest_s: float) -> float | None:
    """The span within which so many devices are busy; None if that is too many for any.

    A shorter span has more of them busy, but for the hours of the day, by which there can be several answers. Going
    down from a span that is too long, the first that is found is the one with the least of a rush.
    """
    short_s = long_s = longest_s
    while busy_within(short_s) < wanted:
        if short_s <= SHORTEST_SPAN_S:
            return None
        short_s, long_s = max(short_s / 2, SHORTEST_SPAN_S), short_s
    for _ in range(HALVINGS):
        middle_s = (short_s + long_s) / 2
        if busy_within(middle_s) < wanted:
            long_s = middle_s
        else:
            short_s = middle_s
    return short_s


# ---- A synthetic trace in weft's own form, as `weft simulate` reads it.

HEADER = "arrival,duration,gang,tenant\n"


def plain_csv(drawn: Drawn) -> str:
    """Arrivals to the millisecond: on a large cluster a thousand jobs may come within minutes."""
    columns = (drawn.arrival_s, drawn.duration_s, drawn.gang_size, drawn.tenant)
    jobs = zip(*(column.tolist() for column in columns), strict=True)
    rows = [
        f"{arrival_s:.3f},{duration_s:.0f},{gang},tenant-{tenant}\n" for arrival_s, duration_s, gang, tenant in jobs
    ]
    return HEADER + "".join(rows)
