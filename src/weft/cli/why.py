"""`weft why`: what a job waits for, who is ahead, and when its turn may come."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import click

from weft.cli.ids import job_ids_argument
from weft.cli.shown import local_time, printable

AT_THE_BEGINNING = re.compile(r"(\d{4}-\d\d-\d\dT\S+): ")
"""When something was decided, as REST says it."""


@click.command(short_help="Say why jobs wait, who is ahead, and when they may start.")
@job_ids_argument
@click.option("--json", "is_json", is_flag=True, help="Print the answer as JSON; of several ids, a list.")
def why(job_ids: tuple[str, ...], is_json: bool) -> None:
    """Say what a job waits for, who is ahead and by which rule, when it may start, and what was decided about it.

    Of the number of an array, what its elements wait for, by reason.
    """
    from weft.cli.found import show_each

    show_each(job_ids, lambda client, job_id: client.why(job_id), _lines, is_json)


def _lines(answer: dict[str, Any]) -> Iterator[str]:
    for line in answer["text"]:
        yield AT_THE_BEGINNING.sub(lambda found: f"{local_time(found[1])}  ", printable(line), count=1)
