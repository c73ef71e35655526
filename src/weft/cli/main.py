"""The command `weft`: its verbs, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import errno
import sys
from importlib import import_module
from typing import Any, NoReturn

import click

from weft import __version__
from weft.core.errors import InputError, WeftError

FAILED, WRONG_INPUT, INTERRUPTED = 1, 2, 130

VERBS = {
    "run": "weft.cli.verbs.submission:run",
    "submit": "weft.cli.verbs.submission:submit",
    "queue": "weft.cli.verbs.queue:queue",
    "status": "weft.cli.verbs.job_details:status",
    "why": "weft.cli.verbs.job_details:why",
    "logs": "weft.cli.verbs.logs:logs",
    "attach": "weft.cli.verbs.submission:attach",
    "wait": "weft.cli.verbs.job_control:wait",
    "cancel": "weft.cli.verbs.job_control:cancel",
    "pause": "weft.cli.verbs.job_control:pause",
    "resume": "weft.cli.verbs.job_control:resume",
    "hold": "weft.cli.verbs.job_control:hold",
    "release": "weft.cli.verbs.job_control:release",
    "rerun": "weft.cli.verbs.submission:rerun",
    "nodes": "weft.cli.verbs.listing:nodes",
    "history": "weft.cli.verbs.listing:history",
    "up": "weft.cli.verbs.daemon_control:up",
    "down": "weft.cli.verbs.daemon_control:down",
    "backup": "weft.cli.verbs.daemon_control:backup",
    "restore": "weft.cli.verbs.daemon_control:restore",
    "repair": "weft.cli.verbs.daemon_control:repair",
    "doctor": "weft.cli.verbs.daemon_control:doctor",
    "simulate": "weft.cli.verbs.simulate:simulate",
    "trace": "weft.cli.verbs.trace:trace",
    "calibrate": "weft.cli.verbs.calibrate:calibrate",
    "policies": "weft.cli.verbs.listing:policies",
    "exec": "weft.cli.verbs.exec:exec_command",
    "completion": "weft.cli.completion:completion",
}
"""In the order of the help. A verb is imported when it is used, so none pays for the imports of another."""


class Verbs(click.Group):
    """Loads a verb when it is called, and says errors as `error:` and `hint:` on stderr.

    Any other error is a bug and keeps its traceback.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in VERBS and not ctx.resilient_parsing:
            raise InputError(f'there is no verb "{args[0]}"', _suggestion(args[0]))
        return super().resolve_command(ctx, args)

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
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            code = _say("the output cannot be written: no space left on device", "", FAILED)
        sys.exit(code)


FAMILIAR = {
    "ps": "queue", "ls": "queue", "list": "queue", "jobs": "queue", "squeue": "queue", "top": "queue",
    "sbatch": "submit", "start": "up", "stop": "down", "kill": "cancel", "scancel": "cancel", "rm": "cancel",
    "suspend": "pause", "continue": "resume", "requeue": "rerun", "resubmit": "rerun", "fg": "attach",
    "sinfo": "nodes", "info": "status", "sacct": "history",
}  # fmt: skip
"""Verbs of other schedulers and tools, and the one of weft that is meant."""


def _suggestion(word: str) -> str:
    from difflib import get_close_matches

    close = [FAMILIAR[word]] if word in FAMILIAR else get_close_matches(word, VERBS, n=1)
    return f"did you mean weft {close[0]}?" if close else "weft --help"


def _say(message: str, hint: str, code: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return code


@click.group(cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="weft", message="%(prog)s %(version)s")
@click.pass_context
def weft(context: click.Context) -> None:
    """Share accelerators among deep-learning jobs of unknown length.

    \b
    Start with:  weft run -- python train.py
            or:  weft simulate sample
    """
    if not context.invoked_subcommand:
        click.echo(context.get_help())


def main() -> NoReturn:
    weft.main(prog_name="weft")


if __name__ == "__main__":
    main()
