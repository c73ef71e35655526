"""`weft attach`: a job that runs already, as `weft run` shows it."""

from __future__ import annotations

import click

from weft.cli.ids import job_id_argument

STDIN = 0


@click.command(short_help="Stay with a job that was submitted before.")
@click.option(
    "--tail",
    "lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Begin with the last N lines that it printed.",
)
@job_id_argument
def attach(lines: int, job_id: str) -> int:
    """Stay with a job as `weft run` does: its output, its input, its progress; the exit code is its own.

    A job takes input if it was started by `weft run` at a terminal or with something to read; of any other the output
    alone is shown. Several may be attached at once: all of them see the output, and what any of them types is the
    job's input.

    Ctrl-C asks whether to detach or to cancel. Without a terminal, SIGINT, SIGTERM and SIGHUP detach.

    \b
    Examples:
      weft attach 17
      weft attach --tail 0 17     only what it prints from now on
    """
    from weft.cli.attached import Attached
    from weft.cli.feeding import Feeding
    from weft.cli.run import has_something_to_read, is_at_a_terminal
    from weft.client import Client

    client = Client()
    job = client.status(job_id)
    is_live = job["finished_at"] is None
    if is_live and not job["stdin"]:
        click.echo(f"weft: job {job['id']} takes no input; its output is shown", err=True)
    feeds = is_live and job["stdin"] and has_something_to_read()
    is_terminal = job["tty"] and is_at_a_terminal()
    feeding = Feeding(client.home, job["id"], is_terminal=is_terminal) if feeds else None
    with Attached(client, job, feeding, is_split=job["split"], last=lines, is_onlooker=True) as attached:
        return attached.follow()
