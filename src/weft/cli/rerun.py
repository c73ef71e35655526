"""`weft rerun`: what a job was, once more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.cli.ids import job_ids_argument
from weft.cli.telling import to_each

if TYPE_CHECKING:
    from weft.client import Client


@click.command(short_help="Submit again what jobs were that have ended.")
@job_ids_argument
@click.option("--parsable", is_flag=True, help="Print ids alone, one a line.")
def rerun(job_ids: tuple[str, ...], parsable: bool) -> int:
    """Submit again what jobs were that have ended: the same command, folder, environment and options.

    The number of an array means all its elements; an element becomes an array of itself alone, with its index. The
    options --after, --begin and --hold are not repeated, and the new job has no input. Environments are kept of the
    last 10,000 jobs that ended, for log_days (weft.toml).

    \b
    Examples:
      weft rerun 17
      weft rerun 17_3
      weft attach $(weft rerun --parsable 17)
    """

    def again(client: Client, job_id: str) -> None:
        new = client.rerun(job_id)
        click.echo(new if parsable else f"submitted job {new}, as {job_id} was")

    return to_each(job_ids, again)
