"""`weft logs`: what jobs printed, and print."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.completion import job_ids_argument
from weft.core.errors import InputError

if TYPE_CHECKING:
    from weft.client import Client
    from weft.system.tail import Tail


@click.command(short_help="Print the output of jobs.")
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the jobs have ended.")
@click.option("--tail", "lines", type=click.IntRange(min=0), metavar="N", help="Start with the last N lines.")
@click.option("--task", type=click.IntRange(min=0), default=0, show_default=True, metavar="R", help="Rank of the task.")
@click.option("--err", "is_err", is_flag=True, help="Standard error, where it is kept separately.")
@job_ids_argument
def logs(follow: bool, lines: int | None, task: int, is_err: bool, job_ids: tuple[str, ...]) -> None:
    """Print the output of jobs, of all attempts; with -f, follow it until they have ended.

    For several jobs, or an array, every line starts with the id of its job. The output of a job is a plain file, which
    `weft status` names. It includes standard error, unless `weft run` started the job with stdout and stderr redirected
    to two places.

    \b
    Examples:
      weft logs -f 17
      weft logs --tail 20 17 18
      weft logs -f 20             all elements of array 20: 20_3: epoch 1
    """
    from weft.cli.attach.screen import write_all
    from weft.client import Client
    from weft.client.job_request import checked_id
    from weft.system.tail import Tail

    client, ids = Client(), [checked_id(job_id) for job_id in job_ids]
    if follow:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # ending this command is no error
    path = client.home.log(ids[0], task, split=is_err)
    if len(ids) > 1 or (not path.exists() and _is_array(client, ids[0])):
        _show_merged(client, ids, task, is_err, lines, follow)
        return
    tail = Tail(path, lines)
    if follow:
        _follow(client, ids[0], tail)
        return
    _check(client, ids[0], path)
    while data := tail.read():
        write_all(1, data)


def _is_array(client: Client, job_id: str) -> bool:
    from weft.client import ArrayError

    try:
        client.status(job_id)
    except ArrayError:
        return True
    return False


def _show_merged(client: Client, ids: list[str], task: int, is_err: bool, lines: int | None, follow: bool) -> None:
    from weft.cli.attach.watcher import Merged, Source
    from weft.cli.attach.watcher import follow as follow_all

    jobs = client.jobs_of(ids)
    merged = Merged([Source(job_id, client.home.log(job_id, task, split=is_err)) for job_id in jobs], lines)
    if follow:
        follow_all(client.home, ids, merged)
        return
    if not merged.show():
        click.echo("these jobs have printed nothing yet", err=True)


def _check(client: Client, job_id: str, path: Path) -> None:
    """A file that is there is shown without asking: the daemon need not run."""
    if path.exists():
        return
    job = client.status(job_id)
    if path.name.endswith(".err") and path.with_suffix(".log").exists():
        raise InputError(f"job {job_id} has no separate standard error", "it is in its log: omit --err")
    tasks = job["ntasks"] or 1
    task = int(path.stem.removeprefix("task-"))
    if task >= tasks:
        raise InputError(f"job {job_id} has no task {task}", f"its tasks are 0 to {tasks - 1}")
    click.echo(f"job {job_id} has printed nothing yet", err=True)


def _follow(client: Client, job_id: str, tail: Tail) -> None:
    from weft.cli.attach.screen import write_all
    from weft.cli.attach.watcher import Watcher
    from weft.system.tail import PollingPace

    watcher, pace = Watcher(client.home, client.status(job_id)), PollingPace()
    watcher.start()
    while True:
        is_over = watcher.has_ended or watcher.error is not None
        data = tail.read()
        write_all(1, data)
        if not data and is_over:
            break
        pace.seen(bool(data))
        if not data:
            time.sleep(pace.wait_s)
    watcher.close()
    if watcher.error:
        raise watcher.error
