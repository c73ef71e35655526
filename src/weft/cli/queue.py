"""`weft queue`: who waits, who runs, and why."""

from __future__ import annotations

import click

from weft.cli.shown import clock, company, count, devices, letters, rate, reason, shortened, show_json, show_table

HEADS = ("ID", "NAME", "TENANT", "ST", "TIME", "DEVICES", "STEPS", "STEPS/S", "REASON")


@click.command(short_help="List the jobs that wait or run.")
@click.option("--all", "is_all", is_flag=True, help="Ended jobs as well.")
@click.option("--json", "is_json", is_flag=True, help="Print a list of jobs as JSON.")
@click.option("--parsable", is_flag=True, help="Print ids alone, one a line.")
def queue(is_all: bool, is_json: bool, parsable: bool) -> None:
    """List the jobs that wait or run, with the reason why they are not further.

    ST is PD pending, R running, PA paused, CD succeeded, F failed, CA cancelled. TIME is how long it has run, DEVICES
    what it holds or, in brackets, how many it waits for. A guest computes on devices that it does not hold. STEPS/S is
    what it makes of its time: for who takes turns, or rests for others, less than its steps alone would say.
    """
    from weft.client import Client

    jobs = Client().queue(all=is_all)
    if is_json:
        show_json(jobs)
    elif parsable:
        for job in jobs:
            click.echo(job["id"])
    else:
        rows = [
            (
                job["id"],
                shortened(job["name"] or ""),
                job["tenant"],
                letters(job["state"]),
                clock(job["run_s"]),
                devices(job),
                count(job["steps"]),
                rate(job["step_rate_hz"]),
                reason(job) or company(job),
            )
            for job in jobs
        ]
        show_table(HEADS, rows)
