"""`weft down`: the daemon and the coordinator end; jobs go on, unless they are to be stopped."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.core.errors import WeftError
from weft.system.processes import Process, is_alive, process

if TYPE_CHECKING:
    from weft.client import Client

PATIENCE_S = 60.0
"""Beyond the time that the daemon gives to jobs that are to end."""
LOOK_EVERY_S = 0.01
TO_STOP = "to stop jobs as well: weft up, then weft down --stop-jobs"


@click.command(short_help="Stop weft; jobs go on.")
@click.option("--stop-jobs", is_flag=True, help="End all running jobs as well; those that wait stay in the queue.")
def down(stop_jobs: bool) -> None:
    """Stop the daemon and the coordinator. Running jobs go on, and the next `weft up` adopts them."""
    from weft.client import Client, NotRunningError

    client = Client()
    locks = {client.home.daemon_lock: "weft.control.daemon", client.home.node_lock: "weft.node.coordinator"}
    there = [found for lock, module in locks.items() if (found := _holder(lock, module))]
    within_s, live = 0.0, 0
    try:
        live = _live(client)
        within_s = client.shutdown(stop_jobs)
    except NotRunningError:
        if stop_jobs and there:
            raise WeftError(
                "the daemon is gone, and only it can stop jobs", "weft up, then weft down --stop-jobs"
            ) from None
        if not there:
            click.echo("weft is not running", err=True)
            return
        _end(there)  # a daemon that was killed leaves its coordinator behind
    _wait_for(there, within_s + PATIENCE_S)
    click.echo("weft is down", err=True)
    if live and not stop_jobs:
        goes = "1 job goes" if live == 1 else f"{live:,} jobs go"
        click.echo(f"{goes} on, and the next weft up adopts {'it' if live == 1 else 'them'}; {TO_STOP}", err=True)


def _live(client: Client) -> int:
    """How many jobs have processes, running or paused, and are not being ended."""
    jobs = client.health()["jobs"]
    return int(jobs.get("RUNNING", 0) + jobs.get("PAUSED", 0))


def _holder(lock: Path, module: str) -> Process | None:
    """Who wrote its number into the lock, if that is still the process it was."""
    try:
        pid = int(lock.read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return process(pid) if module.encode() in words else None


def _end(there: Iterable[Process]) -> None:
    for each in there:
        with suppress(ProcessLookupError):
            os.kill(each.pid, signal.SIGTERM)


def _wait_for(there: Iterable[Process], patience_s: float) -> None:
    deadline_s = time.monotonic() + patience_s
    for each in there:
        while is_alive(each.pid, each.start):
            if time.monotonic() > deadline_s:
                raise WeftError(f"process {each.pid} has not ended after {patience_s:g} s", f"kill -9 {each.pid}")
            time.sleep(LOOK_EVERY_S)
