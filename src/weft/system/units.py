"""Sizes, durations, points in time and array indices, as people write them on the command line."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime, timedelta

from weft.core.errors import InputError

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
LARGEST_BYTES = 1 << 60
SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([KMGT]?)|([KMGT])iB|B)", re.IGNORECASE | re.ASCII)


def parsed_bytes(text: str) -> int:
    """The bytes of 268435456, 256M, 256 MiB or 1.5g; units count by 1024."""
    match = SIZE.fullmatch(text.strip())
    if not match:
        raise InputError(f'"{text}" is not a size', "a number and K, M, G or T, which count by 1024: 512M, 1.5G")
    number, *units = match.groups()
    size = float(number) * UNITS["".join(unit or "" for unit in units).upper()]
    if size > LARGEST_BYTES:
        raise InputError(f'the size "{text}" is more than any machine has', "a number and K, M, G or T: 512M, 1.5G")
    return int(size)


# ---- Limits of memory as people write them.

__all__ = ["LOWEST_DEVICE_LIMIT_BYTES", "LOWEST_LIMIT_BYTES", "parsed_bytes", "parsed_limit"]

LOWEST_LIMIT_BYTES = 64 << 20
LOWEST_DEVICE_LIMIT_BYTES = 1 << 20


def parsed_limit(
    text: str, lowest_bytes: int = LOWEST_LIMIT_BYTES, or_else: str = "no Python interpreter could start"
) -> int:
    """A limit of memory that something can live with."""
    limit_bytes = parsed_bytes(text)
    if limit_bytes < lowest_bytes:
        lowest = lowest_bytes >> 20
        is_number = text.isdigit() and int(text) >= lowest
        hint = f"at least {lowest}M; did you mean {text}M?" if is_number else f"at least {lowest}M"
        raise InputError(f"with a limit of {text} {or_else}", hint)
    return limit_bytes


# ---- Lengths of time as people write them: 90s, 30m, 2h, 1.5d, and as in Slurm 1:30:00 or 2-12:00:00.

UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 10 * 365 * 86400.0
DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smhd]?)", re.IGNORECASE | re.ASCII)
CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+(?::[0-9]{1,2}){0,2})", re.ASCII)
DURATION_EXAMPLES = "a number and s, m, h or d, as in 90s, 30m, 2h, 1.5d; or HH:MM:SS, or D-HH:MM:SS"


def parsed_seconds(text: str) -> float:
    """The seconds of 90, 90s, 30m, 2h, 1d, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS; a bare number is seconds."""
    time_s = _seconds(text.strip())
    if time_s is None:
        raise InputError(f'"{text}" is not a length of time', DURATION_EXAMPLES)
    if time_s == 0:
        raise InputError(f'the time "{text}" is not positive', "omit it for no limit")
    if time_s > LONGEST_S:
        raise InputError(f'the time "{text}" is more than ten years', DURATION_EXAMPLES)
    return time_s


def _seconds(text: str) -> float | None:
    if match := DURATION.fullmatch(text):
        return float(match[1]) * UNITS_S[match[2].lower()]
    if match := CLOCK.fullmatch(text):
        return _of_clock(match[1], [float(part) for part in match[2].split(":")])
    return None


def _of_clock(days: str | None, parts: list[float]) -> float | None:
    """Slurm counts from the left after a day (D-HH:MM), and from the right without one (MM:SS)."""
    lacking = [0.0] * (3 - len(parts))
    hours, minutes, seconds = [*parts, *lacking] if days else [*lacking, *parts]
    is_within = seconds < 60 and (minutes < 60 or (not days and len(parts) == 2)) and (hours < 24 or not days)
    return float(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds if is_within else None


# ---- Points in time as people write them, for `--begin`: now+2h, 2h, 16:00, 2026-11-19T08:00.

TIME_EXAMPLES = "e.g. now+2h, 30m, 16:00, tomorrow, 2026-11-19T08:00 (local time)"
LONGEST_TEXT = 100
OF_THE_DAY = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?", re.ASCII)
NAMED_S = {"now": 0, "midnight": 0, "noon": 12 * 3600, "teatime": 16 * 3600}
SLURM_UNITS = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
RELATIVE = re.compile(r"(?:now\s*\+\s*)?([0-9]+(?:\.[0-9]+)?)\s*(second|minute|hour|day|week)s?", re.ASCII)


def parsed_time(text: str | float, now: float | None = None) -> float:
    """In seconds since 1970. What has passed already is now; a time of the day that has passed is tomorrow's."""
    now = time.time() if now is None else now
    at = text if isinstance(text, int | float) else _read(text.strip().lower(), text, now)
    if not math.isfinite(at) or isinstance(at, bool):
        raise InputError(f"a time to begin at is a number, not {at}", TIME_EXAMPLES)
    if at - now > LONGEST_S:
        raise InputError("the time to begin at is more than ten years away", TIME_EXAMPLES)
    return max(at, 0.0)


def _read(text: str, written: str, now: float) -> float:
    if len(text) > LONGEST_TEXT:
        raise InputError(f"the time to begin at has {len(text):,} letters", TIME_EXAMPLES)
    here = datetime.fromtimestamp(now).astimezone()
    if text == "now":
        return now
    if text == "tomorrow":
        return _on_day(here, 1, 0)
    if text in NAMED_S:
        return _next(here, now, NAMED_S[text])
    if match := RELATIVE.fullmatch(text):
        week = 7 if match[2] == "week" else 1
        return now + week * parsed_seconds(f"{match[1]}{'d' if week > 1 else SLURM_UNITS[match[2]]}")
    if match := OF_THE_DAY.fullmatch(text):
        hour, minute, second = int(match[1]), int(match[2]), int(match[3] or 0)
        if hour > 23 or minute > 59 or second > 59:
            raise InputError(f'"{written}" is no time of a day', TIME_EXAMPLES)
        return _next(here, now, hour * 3600 + minute * 60 + second)
    try:
        if "-" in text and not text.startswith("now"):
            return datetime.fromisoformat(text.upper()).timestamp()
        return now + parsed_seconds(text.removeprefix("now").strip().removeprefix("+").strip())
    except (ValueError, OverflowError, OSError, InputError) as error:
        raise InputError(f'"{written[:LONGEST_TEXT]}" is no time to begin at', TIME_EXAMPLES) from error


def _next(here: datetime, now: float, of_day_s: int) -> float:
    at = _on_day(here, 0, of_day_s)
    return at if at > now else _on_day(here, 1, of_day_s)


def _on_day(here: datetime, days: int, of_day_s: int) -> float:
    """By the clock on the wall, whatever the change of daylight saving time does to the length of that day."""
    day = here.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + timedelta(days=days)
    return (day + timedelta(seconds=of_day_s)).timestamp()


# ---- Arrays as people write them: 1-10, 0-15:4, 1,3,7-9, and %4 at the end for four at a time.

MOST_ELEMENTS = 10_000
LARGEST_INDEX = 9_999_999
ARRAY_EXAMPLES = "e.g. 1-10, or 1-10%4 for four at a time, or 0-30:10, or 1,3,7-9"
NUMBER = re.compile(r"[0-9]+", re.ASCII)
RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)(?::([0-9]+))?)?", re.ASCII)


def parse_array(text: str) -> tuple[list[int], int | None]:
    """The indices, ascending, and how many of them may run at once; None for as many as there is room for."""
    listed, percent, limit = text.partition("%")
    if not listed.strip():
        raise InputError(f'the array "{text}" has no elements', ARRAY_EXAMPLES)
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
        raise _wrong(text, part, at, "is neither a number nor a range", ARRAY_EXAMPLES)
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
        raise _wrong(text, limit, at, "is no number of elements to run at once", ARRAY_EXAMPLES)
    if int(limit) == 0:
        raise _wrong(text, limit, at, "lets no element run", "%1 for one after the other, or --hold for none yet")
    return int(limit)


def _wrong(text: str, part: str, at: int, why: str, hint: str) -> InputError:
    return InputError(f'the array "{text}", at character {at}: "{part}" {why}', hint)


def _too_many(text: str, count: int) -> InputError:
    hint = "submit it in several arrays; %N only bounds how many run at once"
    return InputError(f'the array "{text}" has {count:,} elements or more, and {MOST_ELEMENTS:,} is the most', hint)
