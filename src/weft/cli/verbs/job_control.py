"""`weft cancel`, `pause`, `resume`, `hold`, `release`: change the state of one job or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weft.cli.completion import job_ids_argument
from weft.core.errors import WeftError

if TYPE_CHECKING:
    from weft.client import Client


@click.command(short_help="End jobs, whether they wait or run.")
@job_ids_argument
def cancel(job_ids: tuple[str, ...]) -> int:
    """End jobs, whether they wait or run. The number of an array means all its elements.

    What runs gets SIGTERM first, and SIGKILL if it is still there a few seconds later.
    """
    return _each(job_ids, "cancelled", lambda client, job_id: client.cancel(job_id))


@click.command(short_help="Pause jobs until they are resumed.")
@job_ids_argument
def pause(job_ids: tuple[str, ...]) -> int:
    """Pause jobs until `weft resume`. The number of an array means all its elements.

    A running job stops at its next step boundary and its devices are given to others; its memory stays until others
    need the room. A waiting job does not start. The scheduler does not end the pause, and it survives restarts of weft.

    `weft hold` differs in one thing: it refuses jobs that run.

    \b
    Examples:
      weft pause 17
      weft resume 17
    """
    return _each(job_ids, "paused", lambda client, job_id: client.pause(job_id), "is paused already")


@click.command(short_help="Let paused or held jobs go on.")
@job_ids_argument
def resume(job_ids: tuple[str, ...]) -> int:
    """Let jobs go on that `weft pause` or `weft hold` stopped: they wait for devices again, with all they have done.

    The number of an array means all its elements. `weft release` is the same.
    """
    return _each(job_ids, "resumed", lambda client, job_id: client.resume(job_id), "is neither paused nor held")


@click.command(short_help="Keep waiting jobs from starting.")
@job_ids_argument
def hold(job_ids: tuple[str, ...]) -> int:
    """Keep waiting jobs from starting, until `weft release`. The number of an array means all its elements.

    A job that runs is refused: `weft pause` pauses it.
    """
    return _each(job_ids, "held", lambda client, job_id: client.hold(job_id))


@click.command(short_help="Let held jobs start.")
@job_ids_argument
def release(job_ids: tuple[str, ...]) -> int:
    """Let held jobs start, and paused ones go on. The number of an array means all its elements.

    `weft resume` is the same.
    """
    return _each(job_ids, "released", lambda client, job_id: client.release(job_id), "is not held")


def _each(job_ids: tuple[str, ...], done: str, tell: Callable[..., list[str]], unchanged: str = "") -> int:
    def told(client: Client, job_id: str) -> None:
        changed = tell(client, job_id)
        if not changed:
            click.echo(f"job {job_id} {unchanged}", err=True)
        for each in changed:
            click.echo(f"{done} {each}", err=True)

    return to_each(job_ids, told)


def to_each(job_ids: tuple[str, ...], act: Callable[[Client, str], None]) -> int:
    """Every job, whatever happens to the others; the last refusal is raised, the others are printed."""
    from weft.client import Client, UnreachableError
    from weft.client.job_request import checked_id

    client = Client()
    refused = []
    for job_id in [checked_id(each) for each in job_ids]:
        try:
            act(client, job_id)
        except UnreachableError:
            raise
        except WeftError as error:
            refused.append(error)
    for other in refused[:-1]:
        click.echo(f"error: {other}", err=True)
    if refused:
        raise refused[-1]
    return 0
