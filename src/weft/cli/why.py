"""`weft why`: what a job waits for, who is ahead, and when its turn may come."""

from __future__ import annotations

import re

import click

from weft.cli.ids import job_id_argument
from weft.cli.shown import local_time, printable, show_json

AT_THE_BEGINNING = re.compile(r"(\d{4}-\d\d-\d\dT\S+): ")
"""When something was decided, as REST says it."""


@click.command(short_help="Say why a job waits, who is ahead, and when it may start.")
@job_id_argument
@click.option("--json", "is_json", is_flag=True, help="Print the answer as JSON.")
def why(job_id: str, is_json: bool) -> None:
    """Say what a job waits for, who is ahead and by which rule, when it may start, and what was decided about it."""
    from weft.client import Client

    answer = Client().why(job_id)
    if is_json:
        show_json(answer)
        return
    for line in answer["text"]:
        click.echo(AT_THE_BEGINNING.sub(lambda found: f"{local_time(found[1])}  ", printable(line), count=1))
