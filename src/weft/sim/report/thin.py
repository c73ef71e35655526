"""Long lines made short enough to draw, without hiding what a reader looks for in them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from weft.sim.result import Floats, Ints

Line = tuple[Floats, Floats]
"""Where each value starts to hold, and the value; the last one closes the line."""


def cumulative(values: Floats, points: int) -> Line:
    """The share of values at or below each x: every value if they are few, else evenly spaced quantiles."""
    share = np.linspace(0.0, 1.0, min(len(values) + 1, points))
    return np.quantile(values, share, method="inverted_cdf"), share


def bucket_means(time_s: Floats, values: Floats | Ints, points: int) -> Line:
    """The time-weighted mean of each bucket, so that the area under the line stays what it was."""
    if len(time_s) <= points or time_s[0] == time_s[-1]:
        return time_s, values.astype(np.float64)
    edges = np.linspace(time_s[0], time_s[-1], points)
    area = np.concatenate([[0.0], np.cumsum(values[:-1] * np.diff(time_s))])
    means = np.diff(np.interp(edges, time_s, area)) / np.diff(edges)
    return edges, np.append(means, values[-1])


def bucket_peaks(time_s: Floats, values: Floats | Ints, points: int) -> Line:
    """The greatest value that held at any instant of each bucket."""
    if len(time_s) <= points or time_s[0] == time_s[-1]:
        return time_s, values.astype(np.float64)
    edges = np.linspace(time_s[0], time_s[-1], points)
    first = np.searchsorted(time_s, edges, side="left")
    held = np.searchsorted(time_s, edges, side="right") - 1
    # A bucket also has the value it began with, which may have been set long before.
    peaks = [max(values[held[at]], values[start:end].max(initial=0)) for at, (start, end) in enumerate(pairwise(first))]
    return edges, np.array([*peaks, values[first[-1] :].max()], dtype=np.float64)
