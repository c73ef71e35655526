"""`weft completion`: what a shell needs to complete our words."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


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
