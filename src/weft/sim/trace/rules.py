"""What one cell may say: numbers within limits, times, sizes, classes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from weft.core.values import JobClass
from weft.sim.trace.column import Bools, Floats


@dataclass(frozen=True, slots=True)
class Rule:
    """Which numbers a column takes, in words and as a test. NaN never passes."""

    expected: str
    holds: Callable[[Floats], Bools]


SECONDS = Rule("a number of seconds ≥ 0", lambda v: np.isfinite(v) & (v >= 0))
RUN_SECONDS = Rule("a number of seconds > 0", lambda v: np.isfinite(v) & (v > 0))
COUNT = Rule("a whole number ≥ 1", lambda v: np.isfinite(v) & (v >= 1) & (v == np.floor(v)))
MOST_COUNT = 2**31 - 1
PERCENT = Rule("a percentage ≥ 0", lambda v: (v >= 0) & (v < 2**31))
AMOUNT = Rule("a number ≥ 0", lambda v: np.isfinite(v) & (v >= 0))
TIME = Rule('a number of seconds or a time such as "2017-10-09 07:01:55" (one or the other in a file)', np.isfinite)

CLASS_EXPECTED = "a class: " + ", ".join(JobClass)
TYPES_EXPECTED = 'device types such as "V100|K80"'
SIZE_EXPECTED = 'a size such as "4G", "512M" or a number of bytes'

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 — to count from in times without a zone
_SIZE = re.compile(r"(\d{1,18}(?:\.\d+)?)\s*(?:([KMGT])I?)?B?", re.IGNORECASE)
_POWER = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


def number_or_nan(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def epoch_s(text: str) -> float:
    """An ISO time in seconds since 1970; without a zone it is UTC, so that no machine's own zone matters."""
    moment = datetime.fromisoformat(text.strip())
    return moment.timestamp() if moment.tzinfo else (moment - _EPOCH).total_seconds()


def size_bytes(text: str) -> int | None:
    """4G is 4 × 2³⁰ bytes, the way device memory is counted; an empty cell is not known."""
    if not text.strip():
        return None
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return int(float(match[1]) * 2 ** _POWER[(match[2] or "").upper()])


def job_class(text: str) -> JobClass:
    return JobClass(text.strip().lower() or JobClass.AUTO)


def device_types(text: str) -> frozenset[str] | None:
    """V100|K80 as a set; an empty cell allows all."""
    names = [name.strip() for name in text.split("|")] if text.strip() else []
    if "" in names:
        raise ValueError(text)
    return frozenset(names) or None
