"""`weft queue`: the jobs that wait or run, once or refreshed until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from weft.cli.render.job_text import devices, in_states, letters, loss, reason, share_mark
from weft.cli.render.tables import (
    clock,
    count,
    note_more,
    rate,
    shortened,
    show_json,
    show_lines,
    table_lines,
    terminal_size,
)

if TYPE_CHECKING:
    from weft.client import Job

    Listed = Callable[[int], tuple[list[Job], int]]
    Table = Callable[[list[Job]], list[str]]


HEADS = ("ID", "NAME", "TENANT", "ST", "TIME", "DEVICES", "STEPS", "STEPS/S", "REASON")


STATES = ("PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "CANCELLED")
ROWS = 100
"""The rows of a table that is not limited by the user."""


@click.command(short_help="List waiting and running jobs.")
@click.option("--all", "is_all", is_flag=True, help="Ended jobs as well.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"At most N jobs, 0 for no limit.  [default: {ROWS} in a table, else 0]",
)
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only jobs in this state.")
@click.option("--name", help="Only jobs with this name.")
@click.option("--tenant", help="Only jobs of this tenant.")
@click.option("--json", "is_json", is_flag=True, help="Print a list of jobs as JSON.")
@click.option("--parsable", is_flag=True, help="Print only ids, one a line.")
@click.option(
    "--watch",
    "every_s",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Refresh every 2 s, or every SECONDS, until Ctrl-C.",
)
def queue(
    is_all: bool, limit: int | None, is_json: bool, parsable: bool, every_s: float | None, **filters: str | None
) -> None:
    """List the waiting and running jobs, each with the reason for its state.

    ST is PD pending, R running, PA paused, CD succeeded, F failed, CA cancelled. TIME is the time it has run. DEVICES
    is what it holds or, in brackets, how many it waits for. A guest computes on devices that another job holds. STEPS/S
    is the wall-clock rate, including turn waits and throttling.

    Jobs are listed in the order of their ids. If there are more than the limit, running jobs come first, and the last
    line says how many are left out.

    With --watch a terminal shows as many rows as fit. Without a terminal the listings follow each other, each after a
    line with its time; with --json, one list a line.
    """
    if every_s is not None:
        watch(partial(_listed, is_all, filters=filters), table, limit, every_s, is_json, parsable)
        return
    jobs, total = _listed(is_all, (0 if is_json or parsable else ROWS) if limit is None else limit, filters)
    if is_json:
        show_json(jobs)
    elif parsable:
        for job in jobs:
            click.echo(job["id"])
    else:
        show_lines(table(jobs))
    note_more(len(jobs), total, "weft queue --limit 0 lists all; --state, --name and --tenant list some")


def table(jobs: list[Job]) -> list[str]:
    return table_lines(HEADS, map(_row, jobs), goes=("TENANT", "STEPS/S", "TIME", "STEPS"))


def _listed(is_all: bool, limit: int, filters: Mapping[str, Any]) -> tuple[list[Job], int]:
    """At most `limit` jobs, and how many there are in total."""
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
        "; ".join(filter(None, (loss(job), reason(job) or share_mark(job)))),
    )


HOME, TO_END_OF_LINE, TO_END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
AROUND = 3
"""Rows that are not jobs: what it is, the heads of the columns, and how many more there are."""


def watch(ask: Listed, table: Table, limit: int | None, every_s: float, is_json: bool, parsable: bool) -> None:
    """Until Ctrl-C, which is no error."""
    is_screen = sys.stdout.isatty() and not is_json and not parsable
    try:
        if is_screen:
            _redraw(ask, table, limit, every_s)
        while True:
            jobs, _ = ask(limit or 0)
            if is_json:
                import json

                click.echo(json.dumps(jobs))
            else:
                click.echo(time.strftime("%Y-%m-%d %H:%M:%S"))
                for line in [job["id"] for job in jobs] if parsable else table(jobs):
                    click.echo(line)
                click.echo()
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        if is_screen:
            click.echo()


def _redraw(ask: Listed, table: Table, limit: int | None, every_s: float) -> None:
    """In place: each line over the one that was there, so that nothing flickers. Anew at once in a resized terminal."""
    import os
    import select
    import signal

    from weft.client import UnreachableError

    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGWINCH, lambda *_: None)  # its number comes through the pipe
    shown: list[str] = []
    while True:
        columns, rows = terminal_size()
        room = max(1, rows - AROUND)
        now = time.strftime("%H:%M:%S")
        try:
            jobs, total = ask(min(limit or room, room))
            states = dict.fromkeys(job["state"] for job in jobs)
            counts = {state: sum(job["state"] == state for job in jobs) for state in states}
            more = [f"and {total - len(jobs):,} more"] if total > len(jobs) else []
            shown = [*table(jobs), *more]
            head = f"weft queue  {now}  {in_states(counts) or 'no jobs'}"
        except UnreachableError as error:
            head = f"weft queue  {now}  {error.message}; retrying every {every_s:g} s"
        lines = [line[: columns - 1] for line in [head, *shown]][:rows]
        drawn = f"{TO_END_OF_LINE}\n".join(lines)
        sys.stdout.write(f"{HOME}{drawn}{TO_END_OF_LINE}{TO_END_OF_SCREEN}")
        sys.stdout.flush()
        if select.select([woken], [], [], every_s)[0]:
            os.read(woken, 4096)
