"""Tables that fit a terminal, the text of their cells, and lists as JSON: plain columns that cut and awk can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence

import click

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


SHRINKING = ("NAME", "TENANT", "DEVICES")
UNLIMITED = 1 << 31
GAP = "  "
NARROWEST = 6
"""Letters that are left of a column of texts, where it has more."""
CUT = "…"
Line = Sequence[str]


def show_json(value: object) -> None:
    import json

    click.echo(json.dumps(value, indent=2))


def show_table(heads: Sequence[str], rows: Iterable[Sequence[str]], goes: Sequence[str] = ()) -> None:
    show_lines(table_lines(heads, rows, goes))


def show_lines(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)


def table_lines(heads: Sequence[str], rows: Iterable[Sequence[str]], goes: Sequence[str] = ()) -> list[str]:
    """Every column as wide as it needs. On a narrow terminal names shrink, then the columns in `goes` are left out."""
    lines = [list(heads), *([printable(cell) or NOTHING for cell in row] for row in rows)]
    limit = terminal_size()[0] if sys.stdout.isatty() else UNLIMITED
    return list(fitted(lines, limit, SHRINKING, goes))


def note_more(shown: int, total: int, hint: str) -> None:
    """On stderr, so that what reads the list does not take it for a job."""
    if total > shown:
        click.echo(f"and {total - shown:,} more; {hint}", err=True)


def terminal_size() -> tuple[int, int]:
    """Columns and rows of whichever of our three files is a terminal."""
    for fd in (1, 2, 0):
        try:
            size = os.get_terminal_size(fd)
        except OSError:
            continue
        if size.columns and size.lines:
            return size.columns, size.lines
    return 80, 24


LEAST_LAST, MOST_LAST = 20, 48
"""Letters of the last column that others give way for: two fifths of the line, within these bounds."""


def fitted(lines: Sequence[Line], limit: int, shrinks: Sequence[str], goes: Sequence[str]) -> list[str]:
    """The lines, the first of which are the heads, each at most `limit` letters long.

    For the last column the columns named in `shrinks` are made narrower, then those in `goes` are left out, in turn.
    """
    wanted = min(max(len(line[-1]) for line in lines), max(LEAST_LAST, min(2 * limit // 5, MOST_LAST)))
    left = list(range(len(lines[0]) - 1))
    widths = _shrunk(lines, left, limit - wanted, shrinks)
    for head in goes:
        if _taken(widths) <= limit - wanted:
            break
        left = [column for column in left if lines[0][column] != head]
        widths = _shrunk(lines, left, limit - wanted, shrinks)
    room = limit - _taken(widths)
    return [
        _line([cut(line[at], width).ljust(width) for at, width in widths.items()], line[-1], room) for line in lines
    ]


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)] + CUT[: max(0, width)]


def _shrunk(lines: Sequence[Line], columns: Sequence[int], room: int, shrinks: Sequence[str]) -> dict[int, int]:
    """The widths of these columns: the widest of those that may shrink gives way first."""
    widths = {at: max(len(line[at]) for line in lines) for at in columns}
    floors = {at: min(widths[at], NARROWEST) for at in columns if lines[0][at] in shrinks}
    while _taken(widths) > room:
        wide = max(floors, key=lambda at: widths[at] - floors[at], default=None)
        if wide is None or widths[wide] <= floors[wide]:
            break
        widths[wide] -= 1
    return widths


def _taken(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(GAP) * len(widths)


def _line(cells: Sequence[str], last: str, room: int) -> str:
    return GAP.join([*cells, cut(last, room)]).rstrip()
