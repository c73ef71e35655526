"""The cells of some rows, column by column, and their conversion; an error names file, line and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NoReturn, TypeVar

import numpy as np

from weft.core.errors import InputError
from weft.sim.trace.column import Bools, Floats, Ints
from weft.sim.trace.file import TraceFile
from weft.sim.trace.rules import COUNT, MOST_COUNT, SECONDS, TIME, Rule, epoch_s, number_or_nan

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
        """Seconds on the file's clock. The first time of a file settles whether it tells dates or seconds."""
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
