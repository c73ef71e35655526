"""What people are told of jobs whose attempts were lost: with the machine, or because everything was killed at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from weft.cli.shown import from_step, printable
from weft.core.text import count_of

MOST_NAMED = 8
Lost = Mapping[str, Any]


def tell_losses(health: Mapping[str, Any]) -> None:
    for line in lines_about(health.get("lost") or []):
        click.echo(f"warning: {printable(line)}", err=True)


def lines_about(lost: Iterable[Lost]) -> Iterator[str]:
    """One line for those that begin anew, one for those with checkpoints, one for those that are not tried again."""
    jobs = list(lost)
    anew = [job for job in jobs if job["step"] == 0]
    saved = [job for job in jobs if job["step"]]
    over = [job for job in jobs if job["step"] is None]
    if anew:
        yield f"{_were_lost(anew)} and restarted from the beginning: {_named(anew)}"
    if len({job["step"] for job in saved}) == 1:
        yield f"{_were_lost(saved)} and restarted {from_step(saved[0]['step'])}: {_named(saved)}"
    elif saved:
        yield f"{_were_lost(saved)} and restarted from their checkpoints: {_named(saved, with_steps=True)}"
    if over:
        yield f"{_were_lost(over)} and not restarted: {_named(over)}; weft status {over[0]['id']} says why"


def _were_lost(jobs: list[Lost]) -> str:
    return f"{count_of(len(jobs), 'job')} {'was' if len(jobs) == 1 else 'were'} lost"


def _named(jobs: list[Lost], *, with_steps: bool = False) -> str:
    named = [job["id"] + (f" (step {job['step']:,})" if with_steps else "") for job in jobs[:MOST_NAMED]]
    more = len(jobs) - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")
