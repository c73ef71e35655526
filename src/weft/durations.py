"""Lengths of time as people write them: 90s, 30m, 2h, 1.5d, and as in Slurm 1:30:00 or 2-12:00:00."""

from __future__ import annotations

import re

from weft.core.errors import InputError

UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 10 * 365 * 86400.0
WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([smhd]?)", re.IGNORECASE | re.ASCII)
CLOCK = re.compile(r"(?:([0-9]+)-)?([0-9]+(?::[0-9]{1,2}){0,2})", re.ASCII)
EXAMPLES = "a number and s, m, h or d, as in 90s, 30m, 2h, 1.5d; or HH:MM:SS, or D-HH:MM:SS"


def parsed_seconds(text: str) -> float:
    """The seconds of 90, 90s, 30m, 2h, 1d, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS; a bare number is seconds."""
    time_s = _seconds(text.strip())
    if time_s is None:
        raise InputError(f'"{text}" is not a length of time', EXAMPLES)
    if time_s == 0:
        raise InputError(f'the time "{text}" is none at all', "leave it away for no limit")
    if time_s > LONGEST_S:
        raise InputError(f'the time "{text}" is more than ten years', EXAMPLES)
    return time_s


def _seconds(text: str) -> float | None:
    if match := WRITTEN.fullmatch(text):
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
