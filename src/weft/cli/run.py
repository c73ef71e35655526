"""`weft run`: a job that feels as if it ran right here."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import click

from weft.cli.asking import asked, job_options
from weft.cli.shown import terminal_size

STDIN, OUT, ERR = 0, 1, 2


@click.command(
    short_help="Run a command as a job and stay with it.", context_settings={"allow_interspersed_args": False}
)
@job_options
def run(command: tuple[str, ...], **said: Any) -> int:
    """Run a command as a job and stay with it: its output, its input, its progress; the exit code is its own.

    Starts weft if it is not running. The job gets this folder, umask and environment, and a terminal if we are at one.
    Ctrl-C asks whether to detach or to cancel. Without a terminal, SIGINT and SIGTERM cancel, SIGHUP detaches.

    \b
    Examples:
      weft run -- python train.py
      weft run --gpus 2 --gpu-mem 4G --time 2h -- python train.py --lr 0.1
      weft run --ntasks 4 -- python ddp.py
      weft run --cpus 4 --gpu-ids 0,1 -- python train.py
    """
    has_terminal, has_input = is_at_a_terminal(), has_something_to_read()
    is_split = not has_terminal and not is_one_place(OUT, ERR) and said["output"] is None
    request = asked(command, **said)
    request.update(stdin=has_input, split=is_split)
    if has_terminal:
        columns, rows = terminal_size()
        request["tty"] = {"rows": rows, "cols": columns}

    from weft.cli.attached import Attached
    from weft.cli.feeding import Feeding
    from weft.cli.sending import sent

    client, answer = sent(request)
    job_id = str(answer["id"])
    job = {"id": job_id, "state": "PENDING", "reason": "", "attempt": 0, "exit_code": None, "steps": 0}
    feeding = Feeding(client.home, job_id, is_terminal=has_terminal) if has_input else None
    with Attached(client, job, feeding, is_split=is_split) as attached:
        return attached.follow()


def is_at_a_terminal() -> bool:
    """Whether all three are a terminal, and ours to read: in the background, it is somebody else's."""
    try:
        return all(map(os.isatty, (STDIN, OUT, ERR))) and os.tcgetpgrp(STDIN) == os.getpgrp()
    except OSError:
        return False


def has_something_to_read() -> bool:
    with suppress(OSError):
        if os.isatty(STDIN):
            return os.tcgetpgrp(STDIN) == os.getpgrp()
        return os.fstat(STDIN).st_rdev != os.stat(os.devnull).st_rdev  # noqa: PTH116 - of a file without a path
    return False


def is_one_place(first: int, second: int) -> bool:
    try:
        one, other = os.fstat(first), os.fstat(second)
    except OSError:
        return True
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
