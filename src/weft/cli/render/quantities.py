"""Durations, sizes, counts, rates and times as text in a cell of a table."""

from __future__ import annotations

LONGEST_NAME = 24
NOTHING = "-"


def printable(text: object) -> str:
    """Without control characters, which could move the cursor: users choose the names."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def clock(seconds: float | None) -> str:
    """5:03, 1:05:03 or 2-01:05:03, as squeue has it."""
    if seconds is None:
        return NOTHING
    minutes, second = divmod(max(0, int(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def size(size_bytes: float | None) -> str:
    if size_bytes is None:
        return NOTHING
    unit = next((power for power in range(4) if size_bytes < 1024 ** (power + 1)), 4)
    return f"{_three_figures(size_bytes / 1024**unit)}{'BKMGT'[unit]}"


def count(number: float | None) -> str:
    return NOTHING if number is None else f"{number:.0f}"


def rate(number_hz: float | None) -> str:
    return _three_figures(number_hz) if number_hz else NOTHING


def _three_figures(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def local_time(text: str | None) -> str:
    """A time of the daemon's, in the local time zone."""
    from datetime import datetime

    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else NOTHING
