"""`weft queue`: who waits, who runs, and why."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from weft.cli.shown import (
    clock,
    company,
    count,
    devices,
    letters,
    loss,
    rate,
    reason,
    shortened,
    show_json,
    show_table,
    tell_of_more,
)

if TYPE_CHECKING:
    from weft.client import Job

HEADS = ("ID", "NAME", "TENANT", "ST", "TIME", "DEVICES", "STEPS", "STEPS/S", "REASON")


STATES = ("PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED")
ROWS = 100
"""As many as anybody reads."""


@click.command(short_help="List the jobs that wait or run.")
@click.option("--all", "is_all", is_flag=True, help="Ended jobs as well.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"At most so many, 0 for no limit.  [default: {ROWS} in a table, else 0]",
)
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only jobs in this state.")
@click.option("--name", help="Only jobs of this name.")
@click.option("--tenant", help="Only jobs of this tenant.")
@click.option("--json", "is_json", is_flag=True, help="Print a list of jobs as JSON.")
@click.option("--parsable", is_flag=True, help="Print ids alone, one a line.")
def queue(is_all: bool, limit: int | None, is_json: bool, parsable: bool, **filters: str | None) -> None:
    """List the jobs that wait or run, with the reason why they are not further.

    ST is PD pending, R running, PA paused, CD succeeded, F failed, CA cancelled. TIME is how long it has run, DEVICES
    what it holds or, in brackets, how many it waits for. A guest computes on devices that it does not hold. STEPS/S is
    what it makes of its time: for who takes turns, or rests for others, less than its steps alone would say.

    Jobs are listed in the order of their ids. Where there are more than the limit, those that run come first, and a
    line says how many there are besides.
    """
    jobs, total = _listed(is_all, (0 if is_json or parsable else ROWS) if limit is None else limit, filters)
    if is_json:
        show_json(jobs)
    elif parsable:
        for job in jobs:
            click.echo(job["id"])
    else:
        show_table(HEADS, map(_row, jobs), goes=("TENANT", "STEPS/S", "TIME", "STEPS"))
    tell_of_more(len(jobs), total, "weft queue --limit 0 lists all; --state, --name and --tenant list some")


def _listed(is_all: bool, limit: int, filters: Mapping[str, Any]) -> tuple[list[Job], int]:
    """So many jobs, and how many there are."""
    from weft.client import MOST_A_PAGE, Client

    client = Client()
    if not limit or limit > MOST_A_PAGE:
        jobs = list(islice(client.jobs(is_all, **filters), limit or None))
        return jobs, len(jobs) if not limit else max(len(jobs), client.page(is_all, limit=1, **filters)["total"])
    page = client.page(is_all, limit, **filters)
    jobs, total = page["jobs"], page.get("total", len(page["jobs"]))
    if total > len(jobs) and not filters["state"]:
        running = client.page(limit=limit, **{**filters, "state": "RUNNING"})["jobs"]
        first = {job["id"]: job for job in [*running, *jobs]}
        jobs = list(first.values())[:limit]
    return jobs, total


def _row(job: Job) -> tuple[str, ...]:
    return (
        job["id"],
        shortened(job["name"] or ""),
        job["tenant"],
        letters(job["state"]),
        clock(job["run_s"]),
        devices(job),
        count(job["steps"]),
        rate(job["step_rate_hz"]),
        "; ".join(filter(None, (loss(job), reason(job) or company(job)))),
    )
