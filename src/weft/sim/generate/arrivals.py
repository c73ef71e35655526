"""When the jobs come: by hour and weekday, within a span that gives them the load that is asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from weft.sim.generate.like import Like
from weft.sim.trace.column import Floats, Ints

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
