"""`weft history`: what has ended, and how."""

from __future__ import annotations

import click

from weft.cli.shown import clock, count, letters, local_time, reason, shortened, show_json, show_table

HEADS = ("ID", "NAME", "TENANT", "ST", "EXIT", "SUBMITTED", "WAITED", "TIME", "STEPS", "PREEMPTED", "REASON")


@click.command(short_help="List the jobs that have ended, the latest first.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, metavar="N", help="At most so many."
)
@click.option("--json", "is_json", is_flag=True, help="Print a list of jobs as JSON.")
def history(limit: int, is_json: bool) -> None:
    """List the jobs that have ended, the latest first.

    TIME is how long it ran, WAITED how long it waited in all, PREEMPTED how often it had to make room.
    """
    from weft.client import Client

    jobs = Client().history(limit)
    if is_json:
        show_json(jobs)
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
    show_table(HEADS, rows)
