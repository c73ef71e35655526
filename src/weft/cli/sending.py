"""A job sent to the daemon, which is started if there is none."""

from __future__ import annotations

import os
from typing import Any

from weft.client import Client, NotRunningError


def sent(request: dict[str, Any]) -> tuple[Client, dict[str, Any]]:
    """The client, and what the daemon answered."""
    client = Client()
    try:
        return client, client.send(request)
    except NotRunningError:
        _start(client)
    return client, client.send(request)


def _start(client: Client) -> None:
    import click

    from weft.cli.losses import tell_losses
    from weft.cli.up import absolute_policy, once_joined
    from weft.daemon_start import start_daemon

    if health := start_daemon(client.home, absolute_policy(os.environ.get("WEFT_POLICY"))):
        as_root = "; it runs as root, and so does every job" if os.geteuid() == 0 else ""
        click.echo(f"weft started: process {health['pid']}, policy {health['policy']}{as_root}", err=True)
        if any(health["jobs"].get(state) for state in ("RUNNING", "PAUSED")):  # it may have lost some
            tell_losses(once_joined(client))
