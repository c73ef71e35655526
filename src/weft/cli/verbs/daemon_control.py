"""`weft up` and `weft down`: start and stop the daemon and this machine's coordinator."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import complete_policy
from weft.cli.render.job_text import tell_losses
from weft.core.errors import WeftError
from weft.system.processes import Process, is_alive, process

if TYPE_CHECKING:
    from weft.client import Client


LEVELS = ("debug", "info", "warning", "error")
"""As in weft.system.log, without loading what logs."""
JOINED_S, SETTLED_S = 5.0, 30.0
LOOK_EVERY_S = 0.01


@click.command(short_help="Start weft on this machine, in the background.")
@click.option("--foreground", is_flag=True, help="Stay in this terminal, and print what it logs.")
@click.option(
    "--policy",
    metavar="NAME",
    envvar="WEFT_POLICY",
    shell_complete=complete_policy,
    help="Who goes first: any that weft policies lists, or path/to/file.py:Name. Where weft runs already, it changes "
    "now, and no job is restarted.  [env: WEFT_POLICY]",
)
@click.option(
    "--devices",
    metavar="TEXT",
    envvar="WEFT_DEVICES",
    help="Which devices to manage, as in cpu=4.  [default: the GPUs; without any, this machine's cores]  "
    "[env: WEFT_DEVICES]",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    envvar="WEFT_LOG",
    help="How much daemon.log and node.log say.  [default: info]  [env: WEFT_LOG]",
)
def up(foreground: bool, policy: str | None, devices: str | None, log_level: str | None) -> None:
    """Start the daemon and this machine's coordinator in the background. Jobs that are still there are adopted.

    What weft keeps is in WEFT_HOME (~/.weft); the settings are in weft.toml there. Flags go before the environment, and
    the environment before the file.
    """
    from weft.client import Client
    from weft.client.daemon_start import refuse_network, start_daemon
    from weft.system.home import Home

    home, policy = Home.find(), absolute_policy(policy)
    client = Client(home)
    refuse_network(home)
    if foreground:
        _become_daemon(client, policy, devices, log_level)
    if start_daemon(home, policy, devices, log_level):
        tell_health(once_joined(client), "started")
        return
    if devices:
        click.echo("note: the devices stay as they are; to choose others: weft down, then weft up", err=True)
    if policy:
        before = client.policy()
        client.policy(policy)
        click.echo(f"policy: {before} → {policy}; no job is restarted", err=True)
    tell_health(client.health(), "runs already")


def absolute_policy(text: str | None) -> str | None:
    """A policy in a file of the user's own is named in full: the daemon is in another folder."""
    path, colon, rest = (text or "").partition(":")
    return f"{Path(path).absolute()}:{rest}" if colon and path.endswith(".py") else text


def once_joined(client: Client) -> dict[str, Any]:
    """Its health once the coordinator is there as well and has told which attempts were lost; or after a while."""
    begun_s = time.monotonic()
    while True:
        health = client.health()
        is_settled = health["nodes"] and not health["settling"]
        if is_settled or time.monotonic() > begun_s + (SETTLED_S if health["nodes"] else JOINED_S):
            return health
        time.sleep(LOOK_EVERY_S)


def _become_daemon(client: Client, policy: str | None, devices: str | None, log_level: str | None) -> None:
    from weft.client.daemon_start import daemon_command, is_running
    from weft.client.job_request import cleaned
    from weft.core.errors import WeftError

    if is_running(client):
        raise WeftError("weft runs already, in the background", "weft down")
    client.home.make()
    command = daemon_command(policy, devices, log_level)
    os.execve(command[0], command, cleaned(os.environ))  # noqa: S606 - to be the daemon is what we are asked


def tell_health(health: dict[str, Any], how: str) -> None:
    click.echo(f"weft {how}: process {health['pid']}, policy {health['policy']}, home {health['home']}", err=True)
    tell_losses(health)
    for warning in health.get("warnings") or []:
        click.echo(f"warning: {warning}", err=True)


PATIENCE_S = 60.0
"""Beyond the time that the daemon gives to jobs that are to end."""
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
