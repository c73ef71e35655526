"""`weft run` and `weft attach`: stay with a job, a new one or one that was submitted before."""

from __future__ import annotations

from typing import Any

import click

from weft.cli.completion import job_id_argument
from weft.cli.job_options import job_options, request_from_options
from weft.cli.render.tables import terminal_size


@click.command(
    short_help="Run a command as a job and stay attached.", context_settings={"allow_interspersed_args": False}
)
@job_options
def run(command: tuple[str, ...], **said: Any) -> int:
    """Run a command as a job and stay attached: its output, its input, its progress. The exit code is the job's.

    Starts weft if it is not running. The job gets the current folder, umask, environment and terminal.
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
    request = request_from_options(command, **said)
    request.update(stdin=has_input, split=is_split)
    if has_terminal:
        columns, rows = terminal_size()
        request["tty"] = {"rows": rows, "cols": columns}

    from weft.cli.attach.job_input import JobInput
    from weft.cli.attach.session import JobSession
    from weft.cli.verbs.submission import submit_request

    client, answer = submit_request(request)
    job_id = str(answer["id"])
    job = {"id": job_id, "state": "PENDING", "reason": "", "attempt": 0, "exit_code": None, "steps": 0}
    feeding = JobInput(client.home, job_id, is_terminal=has_terminal) if has_input else None
    with JobSession(client, job, feeding, is_split=is_split) as attached:
        return attached.follow()


@click.command(short_help="Attach to a job that was submitted before.")
@click.option(
    "--tail",
    "lines",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Start with the last N lines of output.",
)
@job_id_argument
def attach(lines: int, job_id: str) -> int:
    """Attach to a job as `weft run` does: its output, its input, its progress. The exit code is the job's.

    A job reads input if `weft run` started it at a terminal or with input to read; for any other job only the output
    is shown. Several sessions can be attached at once: each sees the output, and input from any of them goes to the
    job.

    Ctrl-C asks whether to detach or to cancel. Without a terminal, SIGINT, SIGTERM and SIGHUP detach.

    \b
    Examples:
      weft attach 17
      weft attach --tail 0 17     only new output
    """
    from weft.cli.attach.job_input import JobInput
    from weft.cli.attach.screen import has_something_to_read, is_at_a_terminal
    from weft.cli.attach.session import JobSession
    from weft.client import Client

    client = Client()
    job = client.status(job_id)
    is_live = job["finished_at"] is None
    if is_live and not job["stdin"]:
        click.echo(f"weft: job {job['id']} reads no input; only its output is shown", err=True)
    feeds = is_live and job["stdin"] and has_something_to_read()
    is_terminal = job["tty"] and is_at_a_terminal()
    feeding = JobInput(client.home, job["id"], is_terminal=is_terminal) if feeds else None
    with JobSession(client, job, feeding, is_split=job["split"], last=lines, is_onlooker=True) as attached:
        return attached.follow()
