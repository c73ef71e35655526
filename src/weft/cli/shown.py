"""Figures and tables for people: aligned columns that also cut and awk can read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

LETTERS = {
    "PENDING": "PD",
    "RUNNING": "R",
    "PAUSED": "PA",
    "SUCCEEDED": "CD",
    "FAILED": "F",
    "CANCELLED": "CA",
}
"""States as squeue writes them, where it has them."""

LONGEST_NAME = 24
NOTHING = "-"
SHRINKING = ("NAME", "TENANT", "DEVICES")
UNLIMITED = 1 << 31


def show_json(value: object) -> None:
    import json

    click.echo(json.dumps(value, indent=2))


def show_table(heads: Sequence[str], rows: Iterable[Sequence[str]], goes: Sequence[str] = ()) -> None:
    """Every column as wide as it needs. On a narrow terminal names shrink, then the columns in `goes` are left out."""
    from weft.cli.columns import fitted

    lines = [list(heads), *([printable(cell) or NOTHING for cell in row] for row in rows)]
    limit = terminal_size()[0] if sys.stdout.isatty() else UNLIMITED
    for line in fitted(lines, limit, SHRINKING, goes):
        click.echo(line)


def tell_of_more(shown: int, total: int, hint: str) -> None:
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


def printable(text: object) -> str:
    """Without what would move a terminal's cursor: names are anybody's."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"


def metrics(job: Mapping[str, Any]) -> list[str]:
    """What it reported last. JSON has no word for what is not a number."""
    reported = job.get("metrics") or {}
    return [f"{name} {'nan' if value is None else f'{value:.4g}'}" for name, value in reported.items()]


def letters(state: str) -> str:
    return LETTERS.get(state, state)


def reason(job: Mapping[str, Any]) -> str:
    """Why it is where it is. An ended job that says nothing ended by its exit code."""
    said = str(job.get("reason") or "")
    code = job.get("exit_code")
    return said or (f"exit code {code}" if code else "")


def loss(job: Mapping[str, Any]) -> str:
    """That its last attempt was lost, and where the present or next one begins."""
    return f"was lost, {restart(job)}" if job.get("loss") else ""


def restart(job: Mapping[str, Any]) -> str:
    """Where a job begins whose attempt was lost."""
    return f"{'restarts' if job['state'] == 'PENDING' else 'restarted'} {from_step(job['loss']['step'])}"


def from_step(step: int) -> str:
    return f"from step {step:,}" if step else "from the beginning"


def company(job: Mapping[str, Any]) -> str:
    """Its right to the devices and beside whom it computes, as a mark; a guest may be alone where it sits."""
    right = "guest" if job.get("guest") else "guaranteed" if job.get("guaranteed") else ""
    others = f"beside {' '.join(job['beside'])}" if job.get("beside") else ""
    return f"{right} {others}".strip()


def sharing(job: Mapping[str, Any]) -> str:
    """The same in full."""
    parts = [company(job)] if company(job) else []
    parts += [f"lane {job['lane']}"] if job.get("lane") else []
    if job.get("interference_ratio") is not None:
        parts.append(f"at {job['interference_ratio']:.0%} of its rate alone")
    return ", ".join(parts)


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


def device_memory(job: Mapping[str, Any]) -> str:
    """P outlives a step, T is the most that a step has besides. Empty where nothing is known."""
    memory = job.get("memory") or {}
    limit = f"{size(memory['limit_bytes'])} allowed" if memory.get("limit_bytes") else ""
    if memory.get("peak_bytes") is None:
        return limit
    peak = f"peak {size(memory['peak_bytes'])}{f' of {limit}' if limit else ''}"
    parts = [f"P {size(memory['persistent_bytes'])}", f"T {size(memory['ephemeral_bytes'])}", peak]
    return ", ".join([*parts, f"overflow {size(memory['overflow_bytes'])}"])


def count(number: float | None) -> str:
    return NOTHING if number is None else f"{number:.0f}"


def rate(number_hz: float | None) -> str:
    return _three_figures(number_hz) if number_hz else NOTHING


def _three_figures(number: float) -> str:
    return f"{number:.3g}" if number < 999.5 else f"{number:.0f}"


def local_time(text: str | None) -> str:
    """A time of the daemon's, in the time zone of whoever reads it."""
    from datetime import datetime

    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else NOTHING


def devices(job: Mapping[str, Any]) -> str:
    """What it holds, as node:0,1; or how many it waits for."""
    held: dict[str, list[str]] = {}
    for each in job.get("devices") or []:
        node, _, index = str(each).rpartition(":")
        held.setdefault(node, []).append(index)
    if held:
        return " ".join(f"{node}:{','.join(indices)}" for node, indices in held.items())
    wanted = job.get("gpus") or job.get("ntasks")
    return f"({wanted})" if wanted and job.get("state") in ("PENDING", "PAUSED") else NOTHING
