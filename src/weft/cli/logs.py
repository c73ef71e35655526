"""`weft logs`: what a job printed, and prints."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.ids import job_id_argument
from weft.cli.screen import write_all
from weft.core.errors import InputError

if TYPE_CHECKING:
    from weft.client import Client
    from weft.tail import Tail


@click.command(short_help="Print what a job printed.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--task", type=click.IntRange(min=0), default=0, show_default=True, metavar="R", help="Which rank's.")
@click.option("--err", "is_err", is_flag=True, help="Its standard error, where that was kept apart.")
@job_id_argument
def logs(follow: bool, task: int, is_err: bool, job_id: str) -> None:
    """Print what a job printed, in all its attempts; with -f, go on until it has ended.

    It is a plain file, which `weft status` names. Standard error is in it too, unless it is a job of `weft run` whose
    outputs went to two places.
    """
    from weft.client import Client
    from weft.job_request import checked_id
    from weft.tail import Tail

    client, job_id = Client(), checked_id(job_id)
    path = client.home.log(job_id, task, split=is_err)
    tail = Tail(path)
    if follow:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # to look on and to stop looking is no error
        _follow(client, job_id, tail)
        return
    _check(client, job_id, path)
    while data := tail.read():
        write_all(1, data)


def _check(client: Client, job_id: str, path: Path) -> None:
    """A file that is there is shown without asking: the daemon need not run."""
    if path.exists():
        return
    job = client.status(job_id)
    if path.name.endswith(".err") and path.with_suffix(".log").exists():
        raise InputError(f"job {job_id} keeps no standard error apart", "it is in its log: leave --err away")
    tasks = job["ntasks"] or 1
    task = int(path.stem.removeprefix("task-"))
    if task >= tasks:
        raise InputError(f"job {job_id} has no task {task}", f"its tasks are 0 to {tasks - 1}")
    click.echo(f"job {job_id} has printed nothing yet", err=True)


def _follow(client: Client, job_id: str, tail: Tail) -> None:
    from weft.cli.watching import Watcher
    from weft.tail import Pace

    watcher, pace = Watcher(client.home, client.status(job_id)), Pace()
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
