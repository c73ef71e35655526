"""`weft cancel`, `pause`, `resume`, `hold`, `release`, `wait`: change the state of jobs, or wait for their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import job_ids_argument
from weft.cli.render.job_text import in_states
from weft.cli.render.tables import show_json
from weft.core.errors import WeftError
from weft.core.text import duration_text

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
