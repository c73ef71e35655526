"""`weft wait`: until jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import job_ids_argument
from weft.cli.render.job_text import in_states
from weft.cli.render.tables import show_json
from weft.core.text import duration_text

if TYPE_CHECKING:
    from weft.client import Client


TIMED_OUT = 3
"""Exit code: what was waited for has not happened."""
AGAIN_S = 0.2


@click.command(short_help="Wait until jobs have ended.")
@job_ids_argument
@click.option("--any", "is_any", is_flag=True, help="Until one of them has ended; print its id.")
@click.option("--timeout", metavar="TIME", help="Wait at most this long: 90s, 30m, 2h; a number is seconds.")
@click.option("--json", "is_json", is_flag=True, help="Print their states as JSON.")
def wait(job_ids: tuple[str, ...], is_any: bool, timeout: str | None, is_json: bool) -> int:
    """Wait until jobs have ended. The number of an array means all its elements.

    \b
    The exit code:
      0      all of them have succeeded
      N      of one job, or of the first to end with --any: the job's own exit code
      1      of several jobs or an array: at least one has failed or was cancelled
      3      the timeout has passed
    A cancelled job counts as 143, a job without an exit code as 1. The end of this command does not affect the jobs.

    \b
    Examples:
      weft wait 17 && weft submit -- python eval.py
      weft wait --timeout 2h 17 18 19
      first=$(weft wait --any 17 18)
    """
    from weft.cli.render.job_text import exit_status
    from weft.client import Client
    from weft.client.job_request import checked_id
    from weft.system.units import parsed_seconds

    ids = [checked_id(job_id) for job_id in job_ids]
    timeout_s = None if timeout is None else parsed_seconds(timeout)
    answer = _waited(Client(), ids, is_any, timeout_s)
    first = answer["first"]
    if is_json:
        show_json(answer)
    elif is_any and answer["is_over"]:
        click.echo(first["id"])
    click.echo(_told(answer, is_any, timeout_s or 0.0), err=True)
    if not answer["is_over"]:
        return TIMED_OUT
    return exit_status(first) if is_any or answer["jobs"] == 1 else int(bool(answer["unsuccessful"]))


def _waited(client: Client, ids: list[str], is_any: bool, timeout_s: float | None) -> dict[str, Any]:
    """A daemon that is not there is waited for as well: only it knows how jobs end."""
    from weft.client import UnreachableError

    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    has_answered = False
    while True:
        left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
        try:
            if not has_answered:
                client.wait_for(ids, is_any, 0.0)
                has_answered = True
            return client.wait_for(ids, is_any, left_s)
        except UnreachableError:
            if not has_answered or left_s == 0.0:
                raise
            time.sleep(AGAIN_S)


def _told(answer: Mapping[str, Any], is_any: bool, timeout_s: float) -> str:
    first = answer["first"]
    if not answer["is_over"]:
        return f"weft: not over within {duration_text(timeout_s)}: {in_states(answer['states'])}"
    if is_any or answer["jobs"] == 1:
        return f"weft: job {first['id']} {in_states({first['state']: 1}, counts=False)}"
    failed = f"; without success: {', '.join(answer['unsuccessful'][:10])}" if answer["unsuccessful"] else ""
    return f"weft: {answer['jobs']:,} jobs: {in_states(answer['states'])}{failed}"
