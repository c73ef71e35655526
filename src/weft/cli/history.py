"""`weft history`: what has ended, and how; of one job, what happened to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.ids import complete_job
from weft.cli.shown import (
    clock,
    count,
    letters,
    local_time,
    printable,
    reason,
    shortened,
    show_json,
    show_table,
    tell_of_more,
)

if TYPE_CHECKING:
    from weft.client import Client

HEADS = ("ID", "NAME", "TENANT", "ST", "EXIT", "SUBMITTED", "WAITED", "TIME", "STEPS", "PREEMPTED", "REASON")


@click.command(short_help="List the jobs that have ended, or all that happened to one.")
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=complete_job)
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--json", "is_json", is_flag=True, help="Print a list as JSON.")
def history(job_id: str | None, limit: int, is_json: bool) -> None:
    """List the jobs that have ended, the latest first; with an ID, all that happened to that job, in order.

    TIME is how long it ran: as a guest, by the part of its devices that it had. WAITED is all the time since it was
    submitted in which it had no devices and was not held. PREEMPTED is how often it had to make room.
    """
    from weft.client import Client

    if job_id is not None:
        events = Client().events(job_id)
        if is_json:
            show_json(events)
        for event in () if is_json else events:
            click.echo(f"{local_time(event['at'])}  {printable(event['text'])}")
        return
    client = Client()
    jobs = client.history(limit)
    if is_json:
        show_json(jobs)
        _tell_of_more(client, len(jobs), limit)
        return
    rows = [
        (
            job["id"],
            shortened(job["name"] or ""),
            job["tenant"],
            letters(job["state"]),
            count(job["exit_code"]),
            local_time(job["submitted_at"]),
            clock(job["wait_s"]),
            clock(job["run_s"]),
            count(job["steps"]),
            count(job["preemptions"]),
            reason(job),
        )
        for job in jobs
    ]
    show_table(HEADS, rows, goes=("TENANT", "PREEMPTED", "SUBMITTED", "STEPS", "EXIT"))
    _tell_of_more(client, len(jobs), limit)


def _tell_of_more(client: Client, shown: int, limit: int) -> None:
    total = shown if shown < limit else int(client.history_page(limit=1).get("total", shown))
    tell_of_more(shown, total, f"weft history --limit {total} lists all")
