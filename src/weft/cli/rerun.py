"""`weft rerun`: what a job was, once more."""

from __future__ import annotations

import click

from weft.cli.ids import job_ids_argument
from weft.core.errors import WeftError


@click.command(short_help="Submit again what jobs were that have ended.")
@job_ids_argument
@click.option("--parsable", is_flag=True, help="Print ids alone, one a line.")
def rerun(job_ids: tuple[str, ...], parsable: bool) -> None:
    """Submit again what jobs were that have ended: the same command, folder, environment and options.

    The number of an array means all its elements; an element becomes an array of itself alone, with its index. What it
    came after (--after) and --hold are not repeated, and it has no input. Environments are kept of the last 10,000 jobs
    that ended, for log_days (weft.toml).

    \b
    Examples:
      weft rerun 17
      weft rerun 17_3
      weft attach $(weft rerun --parsable 17)
    """
    from weft.client import Client, UnreachableError
    from weft.job_request import checked_id

    client = Client()
    refused = []
    for job_id in [checked_id(each) for each in job_ids]:
        try:
            again = client.rerun(job_id)
            click.echo(again if parsable else f"submitted job {again}, as {job_id} was")
        except UnreachableError:
            raise
        except WeftError as error:
            refused.append(error)
    for other in refused[:-1]:
        click.echo(f"error: {other}", err=True)
    if refused:
        raise refused[-1]
