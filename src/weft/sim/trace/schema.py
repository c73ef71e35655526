"""The cells of a trace file and what each may say; an error names file, line and column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import compress
from typing import NoReturn, TypeVar

import numpy as np

from weft.core.errors import InputError
from weft.core.values import JobClass
from weft.sim.trace.column_store import Bools, Floats, Ints
from weft.sim.trace.trace_file import TraceFile

T = TypeVar("T")

LONGEST_QUOTE_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Cells:
    """Whole columns are converted at once, which makes reading fast; only an error looks at one cell."""

    file: TraceFile
    lines: Sequence[int]
    columns: Mapping[str, Sequence[str]]
    labels: Mapping[str, str]
    """How a message names each column: the way the file writes it."""

    def has(self, column: str) -> bool:
        return column in self.columns

    def numbers(self, column: str, rule: Rule, blank: float | None = None) -> Floats:
        """The column as numbers within the rule; an empty cell is an error unless there is a `blank`."""
        texts = self.columns[column]
        try:
            values = np.fromiter(map(float, texts), np.float64, len(texts))
            wrong = ~rule.holds(values)
        except ValueError:
            values = np.fromiter(map(number_or_nan, texts), np.float64, len(texts))
            wrong = ~rule.holds(values)
            if blank is not None:
                empty = self.empty(column)
                values[empty] = blank
                wrong &= ~empty
        if wrong.any():
            self.refuse(int(wrong.argmax()), column, rule.expected)
        return values

    def seconds(self, column: str) -> Floats:
        return self.numbers(column, SECONDS)

    def counts(self, column: str) -> Ints:
        values = self.numbers(column, COUNT)
        if values.max(initial=0) > MOST_COUNT:
            self.refuse(int((values > MOST_COUNT).argmax()), column, f"a number up to {MOST_COUNT:,}")
        return values.astype(np.int64)

    def times(self, column: str) -> Floats:
        """Seconds on the file's clock. The first time of a file settles whether it has dates or seconds."""
        texts = self.columns[column]
        if self.file.tells_dates is None and texts:
            self.file.tells_dates = not _is_number(texts[0])
        if not self.file.tells_dates:
            return self.numbers(column, TIME)
        try:
            return np.fromiter(map(epoch_s, texts), np.float64, len(texts))
        except ValueError:
            return np.array(self.converted(column, epoch_s, TIME.expected))

    def converted(self, column: str, convert: Callable[[str], T], expected: str) -> list[T]:
        """The column through a function that raises ValueError for what it cannot read."""
        values = []
        for i, text in enumerate(self.columns[column]):
            try:
                values.append(convert(text))
            except ValueError:
                self.refuse(i, column, expected)
        return values

    def texts(self, column: str, blank: str = "") -> list[str]:
        return [text.strip() or blank for text in self.columns[column]]

    def ids(self, column: str) -> list[str]:
        self.file.id_label = self.labels[column]
        ids = self.texts(column)
        if "" in ids:
            self.refuse(ids.index(""), column, "a job id")
        return ids

    def empty(self, column: str) -> Bools:
        return np.array([not text.strip() for text in self.columns[column]], np.bool_)

    def without(self, unwanted: Bools, reason: str) -> Cells:
        """The cells of the other rows; those left out are counted under the reason."""
        if not unwanted.any():
            return self
        self.file.left_out[reason] += int(unwanted.sum())
        kept = (~unwanted).tolist()
        columns = {name: list(compress(texts, kept)) for name, texts in self.columns.items()}
        return replace(self, lines=list(compress(self.lines, kept)), columns=columns)

    def refuse(self, i: int, column: str, expected: str) -> NoReturn:
        text = self.columns[column][i].strip()
        if len(text) > LONGEST_QUOTE_CHARACTERS:
            text = f"{text[:LONGEST_QUOTE_CHARACTERS]}…"
        found = f'"{text}" is not {expected}' if text else f"is empty, it takes {expected}"
        raise InputError(f"{self.file.name}, line {self.lines[i]}, {self.labels[column]}: {found}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- What one cell may say: numbers within limits, times, sizes, classes.


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
