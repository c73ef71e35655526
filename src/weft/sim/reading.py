"""One value as people write it: numbers, lists with slashes, files of numbers, none. ValueError: it is not that."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple

from weft.core.errors import InputError

LIST_MARK = "/"
NOTHING = ("none", "off")
TRUTHS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Reading(NamedTuple):
    """A value, and how it is shown beside results: as plain JSON."""

    value: Any
    shown: Any


@dataclass(frozen=True)
class Kind:
    """What a parameter may be, in words for a message, and how it is read."""

    words: str
    read: Callable[[str], Reading]
    besides: str = ""
    """What a refusal adds."""


def _number(text: str) -> Reading:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return Reading(value, value)


def _whole(text: str) -> Reading:
    value = int(text)
    return Reading(value, value)


def _truth(text: str) -> Reading:
    value = TRUTHS.get(text.lower())
    if value is None:
        raise ValueError(text)
    return Reading(value, value)


def _nothing(text: str) -> Reading:
    if text.lower() not in NOTHING:
        raise ValueError(text)
    return Reading(None, None)


def _text(text: str) -> Reading:
    return Reading(text, text)


def _numbers(text: str) -> Reading:
    try:
        values = [_number(each).value for each in text.split(LIST_MARK)]
    except ValueError:
        samples = _samples(Path(text))
        return Reading(samples, f"{text} ({len(samples)} samples)")
    return Reading(tuple(values), values)


def _samples(path: Path) -> tuple[float, ...]:
    """One number a line; the first line may be a heading."""
    if path == Path() or not path.exists():
        raise ValueError(path)
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})", "give a text file of numbers") from error
    samples = []
    for count, line in enumerate(lines, 1):
        try:
            samples.append(_number(line).value)
        except ValueError:
            if count > 1 and line.strip():
                raise InputError(f'{path}, line {count}: "{line}" is not a number', "one a line") from None
    if not samples:
        raise InputError(f"{path}: holds no numbers", "one a line")
    return tuple(samples)


def _guess(text: str) -> Reading:
    for read in (_nothing, _whole, _number):
        try:
            return read(text)
        except ValueError:
            continue
    return _text(text)


UNDECLARED = Kind("a value", _guess)
NUMBERS = Kind("numbers like 300/1200 or a file of them", _numbers, ": no such file exists")
KINDS: Mapping[Any, Kind] = MappingProxyType(
    {
        float: Kind("a number", _number),
        int: Kind("a whole number", _whole),
        bool: Kind("true or false", _truth),
        str: Kind("a text", _text),
        NoneType: Kind(NOTHING[0], _nothing),
        tuple: NUMBERS,
        tuple[float, ...]: NUMBERS,
    }
)
