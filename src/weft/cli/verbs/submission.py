"""`weft run`, `submit`, `attach` and `rerun`: put jobs into the queue, and stay with one or leave."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from weft.cli.completion import complete_awaited, job_id_argument, job_ids_argument
from weft.cli.job_options import job_options, request_from_options
from weft.cli.render.tables import terminal_size
from weft.cli.verbs.job_control import for_each_job
from weft.core.text import count_of

if TYPE_CHECKING:
    from weft.client import Client


@click.command(
    short_help="Submit a command to the queue and return.", context_settings={"allow_interspersed_args": False}
)
@click.option("--array", metavar="1-10%4", help="One job for each index, as $WEFT_ARRAY_INDEX; %4: four at a time.")
@click.option(
    "--after",
    metavar="[KIND:]ID",
    multiple=True,
    shell_complete=complete_awaited,
    help="Start after these jobs succeeded; afterany:ID: after they ended; afternotok:ID: after they failed.",
)
@click.option("--parsable", is_flag=True, help="Print only the id.")
@job_options
def submit(command: tuple[str, ...], parsable: bool, **said: Any) -> None:
    """Submit a command to the queue. It gets the current folder, umask and environment; its output goes to a file.

    Starts weft if it is not running.

    \b
    Examples:
      weft submit -- python train.py
      weft submit --gpus 2 --time 2h --name big -- python train.py --lr 0.1
      weft submit --array 1-10%4 -- sh -c 'python train.py --seed $WEFT_ARRAY_INDEX'
      weft submit --after $(weft submit --parsable -- python prepare.py) -- python train.py
      weft submit --after afternotok:17 -- ./tell-me.sh
      weft submit --begin 22:00 --output 'logs/%x-%j.txt' --env SEED=7 -- python train.py
    """
    request = request_from_options(command, **said)
    answer = submit_request(request)[1]
    if parsable:
        click.echo(answer["id"])
    elif "array" in request:
        first, last = answer["ids"][0], answer["ids"][-1]
        click.echo(f"submitted job {answer['id']}: {count_of(len(answer['ids']), 'element')}, {first} to {last}")
    else:
        click.echo(f"submitted job {answer['id']}")


@click.command(short_help="Submit ended jobs again.")
@job_ids_argument
@click.option("--parsable", is_flag=True, help="Print only ids, one a line.")
def rerun(job_ids: tuple[str, ...], parsable: bool) -> int:
    """Submit ended jobs again, with the same command, folder, environment and options.

    The number of an array means all its elements; an element becomes an array of itself alone, with its index. The
    options --after, --begin and --hold are not repeated, and the new job has no input. The environments of the last
    10,000 ended jobs are kept for log_days (weft.toml).

    \b
    Examples:
      weft rerun 17
      weft rerun 17_3
      weft attach $(weft rerun --parsable 17)
    """

    def again(client: Client, job_id: str) -> None:
        new = client.rerun(job_id)
        click.echo(new if parsable else f"submitted job {new}, a rerun of {job_id}")

    return for_each_job(job_ids, again)


def submit_request(request: dict[str, Any]) -> tuple[Client, dict[str, Any]]:
    """The client, and the daemon's answer. Starts the daemon if none runs."""
    from weft.client import Client, NotRunningError

    client = Client()
    try:
        return client, client.send(request)
    except NotRunningError:
        _start(client)
    return client, client.send(request)


def _start(client: Client) -> None:
    from weft.cli.render.job_text import warn_of_losses
    from weft.cli.verbs.daemon_control import absolute_policy, wait_for_node
    from weft.client.daemon_start import start_daemon

    if health := start_daemon(client.home, absolute_policy(os.environ.get("WEFT_POLICY"))):
        as_root = "; it and all jobs run as root" if os.geteuid() == 0 else ""
        click.echo(f"weft started: process {health['pid']}, policy {health['policy']}{as_root}", err=True)
        if any(health["jobs"].get(state) for state in ("RUNNING", "PAUSED")):  # some may be lost
            warn_of_losses(wait_for_node(client))


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
