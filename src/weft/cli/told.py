"""What a person at the command line is told while a simulation runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType

import click

from weft.core.text import count_of
from weft.sim.request import Misfit, ProgressListener
from weft.sim.trace import Trace

MOST_IDS = 8
"""Of jobs that are skipped for one reason, so many are named."""


class Told(ProgressListener):
    """One line about rows that are left out, one about columns that are, one a reason to skip jobs; no bars."""

    def skipped(self, misfits: Sequence[Misfit], jobs: int) -> None:
        by_reason: dict[str, list[str]] = {}
        for misfit in misfits:
            by_reason.setdefault(misfit.why, []).append(misfit.id)
        for why, ids in by_reason.items():
            named = ", ".join(ids[:MOST_IDS]) + (f" and {len(ids) - MOST_IDS:,} more" if len(ids) > MOST_IDS else "")
            if len(ids) == 1:
                click.echo(f"note: job {named} is skipped: it {why}", err=True)
            else:
                click.echo(f"note: {len(ids):,} jobs are skipped ({named}): each {why}", err=True)
        if misfits:
            click.echo(
                f"note: every policy gets the other {jobs - len(misfits):,} of {count_of(jobs, 'job')}", err=True
            )

    def begins(self, trace: Trace, policies: Sequence[str]) -> None:
        if trace.left_out:
            reasons = ", ".join(f"{reason}: {count:,}" for reason, count in trace.left_out.items())
            click.echo(f"note: {count_of(sum(trace.left_out.values()), 'row')} left out ({reasons})", err=True)
        if trace.ignored_columns:
            click.echo(f"note: columns ignored: {', '.join(trace.ignored_columns)}", err=True)

    def __enter__(self) -> Told:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


def told() -> Told:
    """With bars where somebody sees them."""
    if not sys.stderr.isatty():
        return Told()
    from weft.cli.bars import Bars

    return Bars()
