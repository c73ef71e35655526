"""`weft up`, `down`, `doctor`, `backup`, `restore`, `repair`: the daemon, the installation and the log."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import complete_policy
from weft.cli.render.job_text import warn_of_losses
from weft.cli.render.tables import printable, show_json
from weft.core.errors import WeftError
from weft.system.processes import Process, is_alive, process

if TYPE_CHECKING:
    from weft.client import Client


LEVELS = ("debug", "info", "warning", "error")
"""As in weft.system.process_log, without loading what logs."""
JOINED_S, SETTLED_S = 5.0, 30.0
LOOK_EVERY_S = 0.01


@click.command(short_help="Start weft on this machine, in the background.")
@click.option("--foreground", is_flag=True, help="Stay in this terminal, and print the log.")
@click.option(
    "--policy",
    metavar="NAME",
    envvar="WEFT_POLICY",
    shell_complete=complete_policy,
    help="Scheduling policy: one that weft policies lists, or path/to/file.py:Name. If weft runs already, the policy "
    "changes now, and no job is restarted.  [env: WEFT_POLICY]",
)
@click.option(
    "--devices",
    metavar="TEXT",
    envvar="WEFT_DEVICES",
    help="Devices to manage, as in cpu=4.  [default: the GPUs; without any, this machine's cores]  [env: WEFT_DEVICES]",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    envvar="WEFT_LOG",
    help="How much daemon.log and node.log say.  [default: info]  [env: WEFT_LOG]",
)
def up(foreground: bool, policy: str | None, devices: str | None, log_level: str | None) -> None:
    """Start the daemon and this machine's coordinator in the background. Running jobs are adopted.

    All files are in WEFT_HOME (~/.weft), the settings in weft.toml there. Flags override the environment, and the
    environment overrides the file.
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
        print_health(wait_for_node(client), "started")
        return
    if devices:
        click.echo("note: --devices has no effect on a running daemon: weft down, then weft up", err=True)
    if policy:
        before = client.policy()
        client.policy(policy)
        click.echo(f"policy: {before} → {policy}; no job is restarted", err=True)
    print_health(client.health(), "is already running")


def absolute_policy(text: str | None) -> str | None:
    """A policy in a file of the user's own is named in full: the daemon is in another folder."""
    path, colon, rest = (text or "").partition(":")
    return f"{Path(path).absolute()}:{rest}" if colon and path.endswith(".py") else text


def wait_for_node(client: Client) -> dict[str, Any]:
    """The health once the coordinator is connected and has reported which attempts were lost, or after a timeout."""
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
        raise WeftError("weft is already running in the background", "weft down")
    client.home.make()
    command = daemon_command(policy, devices, log_level)
    os.execve(command[0], command, cleaned(os.environ))  # noqa: S606 - this process becomes the daemon


def print_health(health: dict[str, Any], how: str) -> None:
    click.echo(f"weft {how}: process {health['pid']}, policy {health['policy']}, home {health['home']}", err=True)
    warn_of_losses(health)
    for warning in health.get("warnings") or []:
        click.echo(f"warning: {warning}", err=True)


PATIENCE_S = 60.0
"""Beyond the time that the daemon gives to jobs that are to end."""
TO_STOP = "to stop them as well: weft up, then weft down --stop-jobs"


@click.command(short_help="Stop weft; running jobs continue.")
@click.option("--stop-jobs", is_flag=True, help="Stop running jobs as well; waiting jobs stay in the queue.")
def down(stop_jobs: bool) -> None:
    """Stop the daemon and the coordinator. Running jobs continue, and the next `weft up` adopts them."""
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
                "the daemon is not running, and only the daemon can stop jobs", "weft up, then weft down --stop-jobs"
            ) from None
        if not there:
            click.echo("weft is not running", err=True)
            return
        _end(there)  # a daemon that was killed leaves its coordinator behind
    _wait_for(there, within_s + PATIENCE_S)
    click.echo("weft is down", err=True)
    if live and not stop_jobs:
        continues = "1 job continues" if live == 1 else f"{live:,} jobs continue"
        click.echo(f"{continues}, and the next weft up adopts {'it' if live == 1 else 'them'}; {TO_STOP}", err=True)


def _live(client: Client) -> int:
    """How many jobs have processes, running or paused, and are not being ended."""
    jobs = client.health()["jobs"]
    return int(jobs.get("RUNNING", 0) + jobs.get("PAUSED", 0))


def _holder(lock: Path, module: str) -> Process | None:
    """The process that wrote its id into the lock, if that id still belongs to it."""
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


@click.command(short_help="Check the installation and report problems.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--socket", "wants_socket", is_flag=True, help="Only print the path of the daemon's REST socket.")
def doctor(is_json: bool, wants_socket: bool) -> int:
    """Check the installation, this machine and the daemon, and report problems. Exit code 1 if there are any."""
    if wants_socket:
        from weft.system.home import Home

        click.echo(Home.find().socket)
        return 0
    from weft.cli.diagnosis import findings

    found = findings()
    if is_json:
        show_json([asdict(each) for each in found])
    else:
        for each in found:
            click.echo(f"{'ok ' if each.is_ok else 'off'}  {each.what}: {printable(each.says)}")
            if each.hint and not each.is_ok:
                click.echo(f"     hint: {printable(each.hint)}")
    return int(not all(each.is_ok for each in found))


@click.command(short_help="Back up the log, also while weft runs.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def backup(file: Path | None) -> int:
    """Copy the log, verify the copy, and keep it in the folder backups of the home, or as FILE."""
    return maintain("backup", file)


@click.command(short_help="Restore the log from a backup.")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "is_list", is_flag=True, help="Only list the backups, and whether each is usable.")
@click.option("--dry-run", is_flag=True, help="Print what would be restored, and change nothing.")
def restore(file: Path | None, is_list: bool, dry_run: bool) -> int:
    """Replace the log by the newest backup, or by FILE. weft must be down; the replaced log is kept.

    Running jobs continue if the backup or their records on disk know them. No job id is used twice.
    """
    return maintain("restore", file, *(["--list"] if is_list else []), *(["--dry-run"] if dry_run else []))


@click.command(short_help="Recover a damaged log.")
@click.option("--dry-run", is_flag=True, help="Print what would be recovered, and change nothing.")
def repair(dry_run: bool) -> int:
    """Recover what is readable of a damaged log into a new one, and report what is lost. weft must be down.

    It reads the damaged log row by row, the newest backup, and the records of running jobs. The damaged log is kept.
    """
    return maintain("repair", *(["--dry-run"] if dry_run else []))


def maintain(*words: str | Path | None) -> int:
    """Run the daemon's maintenance program, which prints its own messages."""
    command = [sys.executable, "-P", "-m", "weft.control.store.log_tool"]
    given = [str(word.absolute()) if isinstance(word, Path) else word for word in words if word is not None]
    return subprocess.run([*command, *given], check=False).returncode  # noqa: S603
