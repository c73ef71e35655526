"""What is drawn from: how long jobs run, how large their gangs are, and when they come."""

from __future__ import annotations

from collections.abc import Mapping

from weft.core.value import value


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
