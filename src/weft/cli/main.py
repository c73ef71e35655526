"""The command `weft`: its verbs, and the one place where errors become words and exit codes."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

import click

from weft import __version__
from weft.cli.completion import completion
from weft.cli.exec import exec_command
from weft.cli.policies import policies
from weft.cli.simulate import simulate
from weft.core.errors import InputError, WeftError

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130


class Translating(click.Group):
    """Says errors as `error:` and `hint:` on stderr. Anything else is a bug and keeps its traceback."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "weft"
            code = _say(error.format_message(), f"{where} --help", WRONG_INPUT)
        except InputError as error:
            code = _say(error.message, error.hint, WRONG_INPUT)
        except WeftError as error:
            code = _say(error.message, error.hint, FAILED)
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        sys.exit(code)


def _say(message: str, hint: str, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


@click.group(cls=Translating, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.pass_context
def weft(context: click.Context) -> None:
    """Share accelerators among deep-learning jobs of unknown length.

    \b
    Start with:  weft simulate sample
    """
    if not context.invoked_subcommand:
        click.echo(context.get_help())


for command in (simulate, exec_command, policies, completion):
    weft.add_command(command)


def main() -> NoReturn:
    weft.main(prog_name="weft")


if __name__ == "__main__":
    main()
