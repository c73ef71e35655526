"""`weft policies`: what can be asked for, in the words in which to ask."""

from __future__ import annotations

import inspect

import click


@click.command()
def policies() -> None:
    """List the policies, and their parameters with the defaults."""
    # Loaded here, as in the other verbs: `weft --version` should not wait for numpy.
    from weft.policies.registry import POLICIES
    from weft.sim.parameters import as_typed, declared

    for name, make in POLICIES.items():
        click.secho(name, bold=True)
        click.echo(_indented(inspect.getdoc(make) or ""))
        words = [f"{key}={as_typed(each.default)}" for key, each in declared(make).items()]
        if words:
            click.echo(_indented(f"parameters: {', '.join(words)}"))
    click.echo("\nGive parameters as in  tiresias-l:thresholds=300/1200:promote_knob=8")
    click.echo("Your own policy needs no registration:  path/to/file.py:Name:key=value")


def _indented(text: str) -> str:
    return click.wrap_text(text, initial_indent="  ", subsequent_indent="  ")
