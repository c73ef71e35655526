"""Arrays as people write them: 1-10, 0-15:4, 1,3,7-9, and %4 at the end for four at a time."""

from __future__ import annotations

import re

from weft.core.errors import InputError

MOST_ELEMENTS = 10_000
LARGEST_INDEX = 9_999_999
EXAMPLES = "e.g. 1-10, or 1-10%4 for four at a time, or 0-30:10, or 1,3,7-9"
NUMBER = re.compile(r"[0-9]+", re.ASCII)
RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?", re.ASCII)


def parse_array(text: str) -> tuple[list[int], int | None]:
    """The indices, ascending, and how many of them may run at once; None for as many as there is room for."""
    listed, percent, limit = text.partition("%")
    if not listed.strip():
        raise InputError(f'the array "{text}" has no elements', EXAMPLES)
    indices: set[int] = set()
    at = 1
    for part in listed.split(","):
        for index in _elements(part, at, text):
            if index in indices:
                raise _wrong(text, part, at, f"names {index} a second time", "name each element once")
            indices.add(index)
        if len(indices) > MOST_ELEMENTS:
            raise _too_many(text, len(indices))
        at += len(part) + 1
    return sorted(indices), _limit(limit, at, text) if percent else None


def _elements(part: str, at: int, text: str) -> range:
    match = RANGE.fullmatch(part.strip())
    if not match:
        raise _wrong(text, part, at, "is neither a number nor a range", EXAMPLES)
    if max(len(number) for number in match.groups("")) > len(str(LARGEST_INDEX)):
        raise _wrong(text, part, at, f"goes beyond {LARGEST_INDEX:,}", "count from 0 or 1")
    first = int(match[1])
    last = int(match[2]) if match[2] else first
    stride = int(match[3]) if match[3] else 1
    if stride == 0:
        raise _wrong(text, part, at, "has a stride of 0", f"e.g. {first}-{last}:2 for every second one")
    if last < first:
        raise _wrong(text, part, at, "ends before it begins", f"did you mean {last}-{first}?")
    elements = range(first, last + 1, stride)
    if len(elements) > MOST_ELEMENTS:
        raise _too_many(text, len(elements))
    return elements


def _limit(limit: str, at: int, text: str) -> int:
    if not NUMBER.fullmatch(limit) or len(limit) > len(str(LARGEST_INDEX)):
        raise _wrong(text, limit, at, "is no number of elements to run at once", EXAMPLES)
    if int(limit) == 0:
        raise _wrong(text, limit, at, "lets no element run", "%1 for one after the other, or --hold for none yet")
    return int(limit)


def _wrong(text: str, part: str, at: int, why: str, hint: str) -> InputError:
    return InputError(f'the array "{text}", at character {at}: "{part}" {why}', hint)


def _too_many(text: str, count: int) -> InputError:
    hint = "submit it in several arrays; %N only bounds how many run at once"
    return InputError(f'the array "{text}" has {count:,} elements or more, and {MOST_ELEMENTS:,} is the most', hint)
