"""Synthetic traces: seeded, at the load one asks for, with the distributions of published clusters.

The same parameters give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from scipy.special import ndtri

from weft.core.errors import InputError
from weft.core.text import count_of, did_you_mean
from weft.core.value import value
from weft.sim.trace.column_store import Floats, Ints


@value
class Lognormal:
    """One part of a mixture: so many of the jobs, their median, and the spread of the logarithm."""

    weight: float
    median_s: float
    sigma: float


@value
class Band:
    """How long the gangs run that are larger than the band before allows, and no larger than this."""

    largest_gang: float
    durations: tuple[Lognormal, ...]


@value
class Like:
    """A published trace as a few figures. Durations go by gang size: in all three, large gangs run otherwise."""

    gangs: Mapping[int, float]
    """The share of jobs with a gang of each size."""
    bands: tuple[Band, ...]
    """By size; the last takes all gangs that are left."""
    longest_s: float
    """No job runs longer; a longer draw is cut to this."""
    by_hour: tuple[float, ...]
    """Arrivals in each hour of the day, 1 being the mean."""
    by_weekday: tuple[float, ...]
    """Arrivals on each day from Monday, 1 being the mean."""


# ---- Three published clusters as figures to draw from.
#
# How they were found: a cluster's jobs were split into bands by gang size. For each band a mixture of three or four
# lognormals was fitted by least squares to the logarithms of its durations' quantiles (45 levels from 1 % to 99.5 %)
# and of their mean, cut at the longest duration of the trace. Gang sizes are the shares of the trace; those of fewer
# than 10 jobs (Philly: 3) are left out. Arrivals are counted by hour of the day and by weekday.

# Microsoft Philly, September to December 2017: 82,247 GPU jobs that ran, 93 % of them on one GPU
# (msr-fiddle/philly-traces, CC-BY-4.0). Arrivals are those of the 80 days with traffic, on the clock of its log.
PHILLY = Like(
    gangs={
        1: 0.93167, 2: 0.0221, 4: 0.02274, 8: 0.01998, 12: 0.00009, 16: 0.00242, 24: 0.00009, 32: 0.00081,
        64: 0.00007, 128: 0.00004,
    },
    bands=(
        Band(1, (
            Lognormal(0.1727, 63.85, 0.168), Lognormal(0.2007, 167.6, 1.044),
            Lognormal(0.4746, 1966, 0.805), Lognormal(0.1519, 8520, 1.854),
        )),
        Band(2, (Lognormal(0.6105, 17.54, 0.334), Lognormal(0.2151, 39.08, 1.238), Lognormal(0.1744, 86850, 1.199))),
        Band(4, (Lognormal(0.2735, 199.4, 1.034), Lognormal(0.5512, 26350, 1.67), Lognormal(0.1753, 120600, 0.477))),
        Band(8, (Lognormal(0.2842, 393.1, 1.301), Lognormal(0.2645, 12620, 0.812), Lognormal(0.4513, 186200, 0.888))),
        Band(inf, (Lognormal(0.0179, 3.658, 0.062), Lognormal(0.4538, 515.4, 1.838), Lognormal(0.5283, 102100, 1.053))),
    ),
    longest_s=4_628_226.0,
    by_hour=(
        1.25, 0.99, 1.12, 1.11, 0.68, 1.13, 1.68, 2.09, 1.12, 1.01, 1.03, 0.87,
        0.76, 0.71, 0.64, 0.65, 0.89, 0.67, 0.8, 0.73, 1.02, 0.89, 1.14, 1.02,
    ),
    by_weekday=(0.84, 1.01, 1.09, 1.33, 1.51, 0.65, 0.58),
)  # fmt: skip

# SenseTime Helios, cluster Venus, 2020: 125,303 GPU jobs, cut at 48 hours (HeliosData, CC-BY-4.0). The table has
# seconds from a zero of its own, taken as a Wednesday, 4:00: so noon and 18:00 have dips, and the weekend is quiet.
HELIOS = Like(
    gangs={
        1: 0.51838, 2: 0.05546, 3: 0.00161, 4: 0.07258, 5: 0.00078, 6: 0.00164, 7: 0.00197, 8: 0.24734,
        16: 0.04159, 24: 0.00899, 32: 0.02717, 40: 0.00287, 48: 0.00254, 56: 0.00176, 64: 0.00233, 72: 0.00077,
        80: 0.0015, 88: 0.00033, 96: 0.00059, 104: 0.00051, 112: 0.00041, 120: 0.00151, 128: 0.00375, 136: 0.00038,
        144: 0.00034, 152: 0.00094, 160: 0.00181,
    },
    bands=(
        Band(1, (
            Lognormal(0.273, 134, 0.714), Lognormal(0.6182, 192.6, 2.471),
            Lognormal(0.0365, 2070, 0.155), Lognormal(0.0723, 34290, 1.339),
        )),
        Band(7, (
            Lognormal(0.1375, 112.7, 0.942), Lognormal(0.1103, 133.9, 0.392),
            Lognormal(0.5914, 161.1, 2.403), Lognormal(0.1607, 62070, 1.371),
        )),
        Band(8, (
            Lognormal(0.0374, 1.883, 0.927), Lognormal(0.1474, 158.7, 0.26),
            Lognormal(0.6713, 230.2, 1.673), Lognormal(0.1439, 42780, 1.219),
        )),
        Band(32, (Lognormal(0.0971, 7, 1.524), Lognormal(0.6279, 188.1, 1.409), Lognormal(0.275, 35080, 1.482))),
        Band(inf, (Lognormal(0.2503, 5.418, 0.49), Lognormal(0.6158, 176.4, 1.309), Lognormal(0.1338, 14050, 2.23))),
    ),
    longest_s=172_800.0,
    by_hour=(
        0.88, 0.65, 0.59, 0.38, 0.27, 0.2, 0.19, 0.22, 0.38, 0.81, 1.31, 1.47,
        1.17, 1.31, 1.56, 1.67, 1.73, 1.73, 1.28, 1.31, 1.34, 1.36, 1.15, 1.04,
    ),
    by_weekday=(1.06, 1.1, 1.26, 1.19, 0.94, 0.68, 0.77),
)  # fmt: skip

# Alibaba PAI, 2020: 60,105 GPU tasks, a sample, cut at 48 hours (alibaba/clusterdata, CC-BY-4.0). Hours are UTC+8, as
# its authors say; the two quieter of seven days are taken as the weekend.
PAI = Like(
    gangs={
        1: 0.77014, 2: 0.03078, 3: 0.01504, 4: 0.01413, 5: 0.01709, 6: 0.00245, 7: 0.00052, 8: 0.01196, 9: 0.00042,
        10: 0.04015, 11: 0.00023, 12: 0.00802, 15: 0.00423, 16: 0.00923, 18: 0.00082, 20: 0.0213, 24: 0.0004,
        25: 0.00631, 27: 0.00073, 28: 0.001, 29: 0.00028, 30: 0.00928, 32: 0.00111, 35: 0.00017, 36: 0.00093,
        37: 0.00027, 40: 0.00702, 43: 0.00017, 48: 0.00058, 50: 0.01437, 60: 0.00173, 64: 0.00108, 70: 0.00017,
        80: 0.00183, 100: 0.00373, 140: 0.00027, 150: 0.00033, 200: 0.00057, 400: 0.00022,
    },
    bands=(
        Band(1, (
            Lognormal(0.2082, 37.51, 0.44), Lognormal(0.366, 280, 0.883),
            Lognormal(0.2315, 3516, 1.563), Lognormal(0.1943, 4738, 1.135),
        )),
        Band(4, (Lognormal(0.1364, 64.12, 0.399), Lognormal(0.7149, 566.4, 1.425), Lognormal(0.1487, 16680, 1.183))),
        Band(9, (Lognormal(0.3277, 129.3, 0.629), Lognormal(0.6257, 3739, 1.516), Lognormal(0.0466, 12880, 2.014))),
        Band(19, (Lognormal(0.4053, 261.1, 0.776), Lognormal(0.2597, 1544, 0.484), Lognormal(0.335, 8840, 1.085))),
        Band(inf, (Lognormal(0.2704, 269.1, 1.119), Lognormal(0.5387, 3122, 1.002), Lognormal(0.1909, 18390, 0.972))),
    ),
    longest_s=172_800.0,
    by_hour=(
        0.95, 0.93, 0.87, 0.69, 0.7, 1.48, 1.07, 0.97, 0.63, 0.83, 0.92, 0.97,
        1.21, 0.93, 0.84, 1.18, 1.29, 1.06, 1, 1.01, 1.11, 1.05, 1.14, 1.14,
    ),
    by_weekday=(1.06, 1.04, 1.03, 1.11, 1.05, 0.89, 0.82),
)  # fmt: skip

LIKES: Mapping[str, Like] = {"philly": PHILLY, "helios": HELIOS, "pai": PAI}


# ---- What to generate, and the drawing.

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
