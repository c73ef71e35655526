"""`weft up`: the daemon and this machine's coordinator, in the background."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.complete import complete_policy
from weft.cli.losses import tell_losses

if TYPE_CHECKING:
    from weft.client import Client

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
def up(foreground: bool, policy: str | None, devices: str | None) -> None:
    """Start the daemon and this machine's coordinator in the background. Jobs that are still there are adopted.

    What weft keeps is in WEFT_HOME (~/.weft); the settings are in weft.toml there. Flags go before the environment, and
    the environment before the file.
    """
    from weft.client import Client
    from weft.daemon_start import refuse_network, start_daemon
    from weft.home import Home

    home, policy = Home.find(), absolute_policy(policy)
    client = Client(home)
    refuse_network(home)
    if foreground:
        _become_daemon(client, policy, devices)
    if start_daemon(home, policy, devices):
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


def _become_daemon(client: Client, policy: str | None, devices: str | None) -> None:
    from weft.core.errors import WeftError
    from weft.daemon_start import daemon_command, is_running
    from weft.job_request import cleaned

    if is_running(client):
        raise WeftError("weft runs already, in the background", "weft down")
    client.home.make()
    command = daemon_command(policy, devices)
    os.execve(command[0], command, cleaned(os.environ))  # noqa: S606 - to be the daemon is what we are asked


def tell_health(health: dict[str, Any], how: str) -> None:
    click.echo(f"weft {how}: process {health['pid']}, policy {health['policy']}, home {health['home']}", err=True)
    tell_losses(health)
    for warning in health.get("warnings") or []:
        click.echo(f"warning: {warning}", err=True)
