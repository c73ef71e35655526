"""`weft exec`: a command with the runtime inside, and no daemon."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from weft.core.errors import InputError


def _complete_command(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


@click.command(
    "exec",
    short_help="Run a command whose steps are seen and which can be paused.",
    context_settings={"allow_interspersed_args": False},
)
@click.option(
    "--page",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Make the control page here and leave it there at the end. It must be in memory, as /dev/shm is.  "
    "[default: a file in /dev/shm, removed at the end]",
)
@click.option(
    "--limit",
    metavar="SIZE",
    help="Device memory the command may use: bytes, or with K, M, G or T, which count by 1024, as in 1.5G. On the cpu "
    "device, the only one so far, this bounds the private memory (RLIMIT_DATA) of each process of the command; an "
    "allocation beyond it fails as if the machine had no more.",
)
@click.option(
    "--checkpoints",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Where the checkpoints of the command are; made if it is not there. Started again with the same folder, the "
    "command goes on from the last one.",
)
@click.argument("command", nargs=-1, metavar="-- CMD...", type=click.UNPROCESSED, shell_complete=_complete_command)
def exec_command(page: Path | None, limit: str | None, checkpoints: Path | None, command: tuple[str, ...]) -> int:
    """Run a command with weft's runtime in every Python interpreter it starts, and no daemon.

    The script needs no change: its training steps are found through PyTorch, and it can be paused between two of them.
    The exit code is the command's, or 128 + N if signal N ended it. 75 means that it was asked to leave, and did so
    after a checkpoint.

    \b
    Examples:
      weft exec -- python train.py --lr 0.1
      weft exec --page /dev/shm/mine.page --limit 8G -- python train.py
      weft exec --checkpoints runs/a -- torchrun --nproc-per-node 2 train.py
    """
    if not command:
        raise InputError("no command is given", "e.g. weft exec -- python train.py")
    from weft.node.launch import CommandError, environment, run
    from weft.node.pages import page_for_a_task, step_of_leaving
    from weft.node.size import parsed_limit
    from weft.node.watching import signals_held
    from weft.runtime.layout import LEFT_EXIT_CODE

    limit_bytes = parsed_limit(limit) if limit is not None else 0
    if checkpoints:
        _make_folder(checkpoints)
    try:
        with signals_held() as mask, page_for_a_task(page) as made:
            path = Path(made.path)
            code = run(command, made, environment(os.environ, path, checkpoints), mask, limit_bytes)
            step = step_of_leaving(path) if code in (0, LEFT_EXIT_CODE) else None
    except CommandError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        _end_as_interrupted()
        raise
    if step is None:
        return code
    click.echo(f"weft: checkpointed at step {step}; the same command goes on from there", err=True)
    return LEFT_EXIT_CODE


def _make_folder(folder: Path) -> None:
    """A folder that can be written to, or an error before anything is started."""
    import tempfile

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise InputError(
            f"checkpoints cannot be written to {folder}: {why}", "name another --checkpoints DIR"
        ) from error


def _end_as_interrupted() -> None:
    """By the signal itself: a shell leaves its loop or script only if what it ran was ended by Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
