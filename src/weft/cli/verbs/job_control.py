"""`weft cancel`, `pause`, `resume`, `hold`, `release`: change the state of one job or several."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from weft.cli.completion import job_ids_argument
from weft.core.errors import WeftError

if TYPE_CHECKING:
    from weft.client import Client


@click.command(short_help="Cancel waiting or running jobs.")
@job_ids_argument
def cancel(job_ids: tuple[str, ...]) -> int:
    """Cancel waiting or running jobs. The number of an array means all its elements.

    A running job gets SIGTERM, and SIGKILL if it has not ended a few seconds later.
    """
    return _each(job_ids, "cancelled", lambda client, job_id: client.cancel(job_id))


@click.command(short_help="Pause jobs until they are resumed.")
@job_ids_argument
def pause(job_ids: tuple[str, ...]) -> int:
    """Pause jobs until `weft resume`. The number of an array means all its elements.

    A running job stops at its next step boundary and releases its devices; it keeps its memory until other jobs need
    it. A waiting job does not start. Only `weft resume` ends the pause, which also survives restarts of weft.

    `weft hold` differs in one way: it refuses running jobs.

    \b
    Examples:
      weft pause 17
      weft resume 17
    """
    return _each(job_ids, "paused", lambda client, job_id: client.pause(job_id), "is already paused")


@click.command(short_help="Resume paused or held jobs.")
@job_ids_argument
def resume(job_ids: tuple[str, ...]) -> int:
    """Resume jobs that `weft pause` or `weft hold` stopped: they queue for devices again and keep their progress.

    The number of an array means all its elements. `weft release` is the same.
    """
    return _each(job_ids, "resumed", lambda client, job_id: client.resume(job_id), "is neither paused nor held")


@click.command(short_help="Keep waiting jobs from starting.")
@job_ids_argument
def hold(job_ids: tuple[str, ...]) -> int:
    """Keep waiting jobs from starting, until `weft release`. The number of an array means all its elements.

    A running job is refused: use `weft pause`.
    """
    return _each(job_ids, "held", lambda client, job_id: client.hold(job_id))


@click.command(short_help="Release held jobs.")
@job_ids_argument
def release(job_ids: tuple[str, ...]) -> int:
    """Release held jobs, and resume paused ones. The number of an array means all its elements.

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

    return for_each_job(job_ids, told)


def for_each_job(job_ids: tuple[str, ...], act: Callable[[Client, str], None]) -> int:
    """Act on every job, also when some are refused: the last refusal is raised, the others are printed."""
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
