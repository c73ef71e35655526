"""`weft run` and `weft attach`: stay with a job, a new one or one that was submitted before."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.completion import job_id_argument
from weft.cli.job_options import asked, job_options
from weft.cli.render.tables import terminal_size


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
    from weft.cli.attach.screen import ERR, OUT, has_something_to_read, is_at_a_terminal, is_one_place

    has_terminal, has_input = is_at_a_terminal(), has_something_to_read()
    is_split = not has_terminal and not is_one_place(OUT, ERR) and said["output"] is None
    request = asked(command, **said)
    request.update(stdin=has_input, split=is_split)
    if has_terminal:
        columns, rows = terminal_size()
        request["tty"] = {"rows": rows, "cols": columns}

    from weft.cli.attach.job_input import Feeding
    from weft.cli.attach.session import Attached
    from weft.cli.verbs.submission import sent

    client, answer = sent(request)
    job_id = str(answer["id"])
    job = {"id": job_id, "state": "PENDING", "reason": "", "attempt": 0, "exit_code": None, "steps": 0}
    feeding = Feeding(client.home, job_id, is_terminal=has_terminal) if has_input else None
    with Attached(client, job, feeding, is_split=is_split) as attached:
        return attached.follow()


@click.command(short_help="Stay with a job that was submitted before.")
@click.option(
    "--tail",
    "lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Begin with the last N lines that it printed.",
)
@job_id_argument
def attach(lines: int, job_id: str) -> int:
    """Stay with a job as `weft run` does: its output, its input, its progress; the exit code is its own.

    A job takes input if it was started by `weft run` at a terminal or with something to read; of any other the output
    alone is shown. Several may be attached at once: all of them see the output, and what any of them types is the
    job's input.

    Ctrl-C asks whether to detach or to cancel. Without a terminal, SIGINT, SIGTERM and SIGHUP detach.

    \b
    Examples:
      weft attach 17
      weft attach --tail 0 17     only what it prints from now on
    """
    from weft.cli.attach.job_input import Feeding
    from weft.cli.attach.screen import has_something_to_read, is_at_a_terminal
    from weft.cli.attach.session import Attached
    from weft.client import Client

    client = Client()
    job = client.status(job_id)
    is_live = job["finished_at"] is None
    if is_live and not job["stdin"]:
        click.echo(f"weft: job {job['id']} takes no input; its output is shown", err=True)
    feeds = is_live and job["stdin"] and has_something_to_read()
    is_terminal = job["tty"] and is_at_a_terminal()
    feeding = Feeding(client.home, job["id"], is_terminal=is_terminal) if feeds else None
    with Attached(client, job, feeding, is_split=job["split"], last=lines, is_onlooker=True) as attached:
        return attached.follow()
