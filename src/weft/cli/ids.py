"""Ids of jobs as arguments, completed by the shell from what the daemon knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from weft.core.errors import WeftError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETION_S = 1.0
OFFERED = 100
"""Longer lists of completions are of no use; a further digit leaves fewer."""


def complete_job(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids of the jobs that wait or run; of all, where a verb is about ended ones too. Without a daemon, none."""
    from click.shell_completion import CompletionItem

    from weft.client import Client

    try:
        is_all = context.info_name in ("status", "why", "logs", "history", "wait", "rerun")
        jobs = Client(timeout_s=COMPLETION_S).page(is_all, limit=OFFERED, prefix=incomplete or None)["jobs"]
    except (WeftError, OSError):
        return []
    return [
        CompletionItem(job["id"], help=f"{job['name'] or ''} {job['state'].lower()}".strip())
        for job in jobs
        if job["id"].startswith(incomplete)
    ]


job_id_argument = click.argument("job_id", metavar="ID", shell_complete=complete_job)
job_ids_argument = click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_job)
