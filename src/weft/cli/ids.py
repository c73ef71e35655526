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
        is_all = context.info_name in ("status", "why", "logs", "history")
        jobs = Client(timeout_s=COMPLETION_S).page(is_all, limit=OFFERED, prefix=incomplete or None)["jobs"]
    except (WeftError, OSError):
        return []
    return [
        CompletionItem(job["id"], help=f"{job['name'] or ''} {job['state'].lower()}".strip())
        for job in jobs
        if job["id"].startswith(incomplete)
    ]


def complete_awaited(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids, or kinds of dependencies and ids after them."""
    from click.shell_completion import CompletionItem

    from weft.job_request import AFTER_KINDS

    kind, colon, begun = incomplete.rpartition(":")
    found = complete_job(context, argument, begun)
    kinds = [] if colon else [CompletionItem(f"{each}:") for each in AFTER_KINDS if each.startswith(incomplete)]
    return kinds + [CompletionItem(f"{kind}{colon}{each.value}", help=each.help) for each in found]


job_id_argument = click.argument("job_id", metavar="ID", shell_complete=complete_job)
job_ids_argument = click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_job)
