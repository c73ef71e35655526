"""`weft policies`: what can be asked for, in the words in which to ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click

from weft.cli.completion import complete_policy
from weft.core.errors import InputError

WIDTH = 80


@click.command()
@click.argument("name", required=False, shell_complete=complete_policy)
def policies(name: str | None) -> None:
    """List the policies and their parameters, or explain the policy NAME.

    Each parameter is shown with its default.
    """
    # Loaded here, as in the other verbs: `weft --version` should not wait for numpy.
    from weft.policies.loader import registered
    from weft.policies.registry import PARAMETERS, POLICIES

    if name:
        make = registered(name)
        _describe(name, make)
        for key, word in _words(make).items():
            _explain(word, PARAMETERS[key])
        return
    for each, make in POLICIES.items():
        _describe(each, make)
        if _words(make):
            click.echo(_indented(f"parameters: {', '.join(_words(make).values())}"))
    click.secho("\nParameters", bold=True)
    for key, meaning in PARAMETERS.items():
        _explain(key, meaning)
    click.echo("\nGive parameters as in  tiresias-l:thresholds=300/1200:promote_knob=8")
    click.echo("Your own policy needs no registration:  path/to/file.py:Name:key=value")


def _describe(name: str, make: Callable[..., Any]) -> None:
    from weft.policies.loader import policies_asked

    try:
        heeds_classes = policies_asked(name)[0].heeds_classes
        more = " It heeds quotas and classes: opportunistic jobs yield." if heeds_classes else ""
    except InputError as error:  # an extra is not installed
        more = f" Not available here: {error.hint}."
    click.secho(name, bold=True)
    click.echo(_indented(f"{inspect.getdoc(make) or ''}{more}"))


def _words(make: Callable[..., Any]) -> dict[str, str]:
    """Each parameter with its default, as one would type it."""
    from weft.policies.loader import as_typed, declared

    return {key: f"{key}={as_typed(each.default)}" for key, each in declared(make).items()}


def _explain(parameter: str, meaning: str) -> None:
    click.echo(f"  {parameter}")
    click.echo(_indented(meaning, "      "))


def _indented(text: str, indent: str = "  ") -> str:
    return click.wrap_text(text, WIDTH, initial_indent=indent, subsequent_indent=indent)
