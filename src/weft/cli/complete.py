"""What a shell offers to complete: the words that weft knows, and files where a file will do."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

SAMPLE = "sample"


def complete_policy(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    from weft.policies.registry import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


def complete_policies(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in complete_policy(context, option, last)]


def complete_trace(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return _words_or_files([SAMPLE], incomplete)


def complete_world(context: click.Context, option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from weft.sim.world import PACKAGED

    return _words_or_files(PACKAGED, incomplete)


def complete_form(context: click.Context, option: click.Parameter, incomplete: str) -> list[str]:
    from weft.sim.trace import FORMS

    return [form for form in FORMS if form.startswith(incomplete)]


def _words_or_files(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """A shell looks for files by itself only where we offer no word; beside a word, we name those here."""
    fitting = [word for word in words if word.startswith(incomplete)]
    if not fitting:
        return [CompletionItem(incomplete, type="file")]
    here = sorted(path.name for path in Path().iterdir() if not path.name.startswith("."))
    return [CompletionItem(word) for word in dict.fromkeys([*fitting, *here]) if word.startswith(incomplete)]
