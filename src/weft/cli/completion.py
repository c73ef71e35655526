"""Shell completion: job ids and devices from the daemon, names that weft knows, files and folders."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.core.errors import WeftError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


SAMPLE = "sample"

COMPLETION_S = 1.0

OFFERED = 100
"""Longer lists of completions are of no use; a further digit leaves fewer."""
SHELLS = ("bash", "zsh", "fish")


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


def complete_awaited(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Ids, or kinds of dependencies and ids after them."""
    from click.shell_completion import CompletionItem

    from weft.client.job_request import AFTER_KINDS

    kind, colon, begun = incomplete.rpartition(":")
    found = complete_job(context, argument, begun)
    kinds = [] if colon else [CompletionItem(f"{each}:") for each in AFTER_KINDS if each.startswith(incomplete)]
    return kinds + [CompletionItem(f"{kind}{colon}{each.value}", help=each.help) for each in found]


job_id_argument = click.argument("job_id", metavar="ID", shell_complete=complete_job)
job_ids_argument = click.argument("job_ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_job)


def complete_command(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_folder(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def complete_device(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The next of several, with commas between."""
    from click.shell_completion import CompletionItem

    from weft.client import Client
    from weft.core.errors import WeftError

    before, comma, begun = incomplete.rpartition(",")
    try:
        indices = [str(device["index"]) for node in Client().nodes() for device in node["devices"]]
    except (WeftError, OSError):
        return []
    named = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{index}") for index in indices if index.startswith(begun) and index not in named
    ]


def complete_policy(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    from weft.policies.registry import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def complete_policies(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_policy(context, option, last)]


def complete_trace(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _words_or_files([SAMPLE], incomplete)


def complete_world(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    try:
        from weft.sim.world import PACKAGED
    except ImportError:  # the extra sim is not installed
        return []
    return _words_or_files(PACKAGED, incomplete)


def complete_form(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    try:
        from weft.sim.trace import FORMS
    except ImportError:
        return []
    return [form for form in FORMS if form.startswith(incomplete)]


def complete_like(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    try:
        from weft.sim.generate import LIKES
    except ImportError:
        return []
    return [name for name in LIKES if name.startswith(incomplete)]


def _words_or_files(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """A shell looks for files itself only where no word is offered; where one is, files are offered here as well."""
    from click.shell_completion import CompletionItem

    fitting = [word for word in words if word.startswith(incomplete)]
    if not fitting:
        return [CompletionItem(incomplete, type="file")]
    here = sorted(path.name for path in Path().iterdir() if not path.name.startswith("."))
    return [CompletionItem(word) for word in dict.fromkeys([*fitting, *here]) if word.startswith(incomplete)]


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for your shell.

    \b
    bash:  eval "$(weft completion bash)"      in ~/.bashrc
    zsh:   eval "$(weft completion zsh)"       in ~/.zshrc
    fish:  weft completion fish | source       in ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    if script:
        click.echo(script(context.find_root().command, {}, "weft", "_WEFT_COMPLETE").source())
