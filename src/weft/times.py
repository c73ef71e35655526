"""Points in time as people write them, for `--begin`: now+2h, 2h, 16:00, 2026-11-19T08:00."""

from __future__ import annotations

import math
import re
import time
from datetime import datetime, timedelta

from weft.core.errors import InputError
from weft.durations import LONGEST_S, parsed_seconds

EXAMPLES = "e.g. now+2h, 30m, 16:00, tomorrow, 2026-11-19T08:00 (local time)"
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
        raise InputError(f"a time to begin at is a number, not {at}", EXAMPLES)
    if at - now > LONGEST_S:
        raise InputError("the time to begin at is more than ten years away", EXAMPLES)
    return max(at, 0.0)


def _read(text: str, written: str, now: float) -> float:
    if len(text) > LONGEST_TEXT:
        raise InputError(f"the time to begin at has {len(text):,} letters", EXAMPLES)
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
            raise InputError(f'"{written}" is no time of a day', EXAMPLES)
        return _next(here, now, hour * 3600 + minute * 60 + second)
    try:
        if "-" in text and not text.startswith("now"):
            return datetime.fromisoformat(text.upper()).timestamp()
        return now + parsed_seconds(text.removeprefix("now").strip().removeprefix("+").strip())
    except (ValueError, OverflowError, OSError, InputError) as error:
        raise InputError(f'"{written[:LONGEST_TEXT]}" is no time to begin at', EXAMPLES) from error


def _next(here: datetime, now: float, of_day_s: int) -> float:
    at = _on_day(here, 0, of_day_s)
    return at if at > now else _on_day(here, 1, of_day_s)


def _on_day(here: datetime, days: int, of_day_s: int) -> float:
    """By the clock on the wall, whatever the change of daylight saving time does to the length of that day."""
    day = here.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) + timedelta(days=days)
    return (day + timedelta(seconds=of_day_s)).timestamp()
