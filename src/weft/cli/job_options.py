"""The options of `weft run` and `weft submit`, and the request that they make."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from weft.cli.completion import complete_command, complete_device, complete_folder
from weft.client.job_request import CLASSES, LEAST_PRIORITY, MOST_PRIORITY, Options, job_request, with_variables

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
AT_LEAST_ONE = click.IntRange(min=1)


COMMAND = click.argument(
    "command", nargs=-1, metavar="-- CMD...", type=click.UNPROCESSED, shell_complete=complete_command
)
TRUST = (
    "Load checkpoints without checks. Otherwise a checkpoint is refused if another user could have written it, or if "
    "it holds types that can run code."
)
OPTIONS = (
    click.option(
        "--gpus", type=AT_LEAST_ONE, metavar="N", help="Number of devices in total.  [default: one for each task]"
    ),
    click.option(
        "--ntasks",
        type=AT_LEAST_ONE,
        metavar="M",
        help="Start M processes as one gang, each with torchrun's variables (RANK, WORLD_SIZE, ...).  [default: 1]",
    ),
    click.option(
        "--gpu-mem",
        metavar="SIZE",
        help="Device memory that PyTorch may allocate in each task, as in 4G. Memory beyond that goes to disk, which "
        "is slow; with strict_memory = true in weft.toml, or without weft's native library, the allocation fails.",
    ),
    click.option(
        "--mem",
        metavar="SIZE",
        help="Additional host memory of the job, as in 16G. On cpu devices, whose memory is the host's, the sum "
        "of both limits the private memory (RLIMIT_DATA) of each process.",
    ),
    click.option(
        "--class",
        "job_class",
        type=click.Choice(CLASSES),
        help="guaranteed: runs as if alone; opportunistic: uses idle capacity.  [default: auto]",
    ),
    click.option("--name", metavar="X", help="Name of the job in listings."),
    click.option(
        "--time",
        metavar="TIME",
        help="Time limit: 90s, 30m, 2h, 1d, HH:MM:SS, D-HH:MM:SS; a number is seconds.",
    ),
    click.option(
        "--tenant",
        metavar="NAME",
        envvar="WEFT_TENANT",
        help="Tenant that the job is accounted to.  [env: WEFT_TENANT]",
    ),
    click.option("--steps", type=AT_LEAST_ONE, metavar="N", help="Number of training steps; gives an ETA."),
    click.option(
        "--retries", type=click.IntRange(min=0), metavar="N", help="Restart a failed job up to N times.  [default: 0]"
    ),
    click.option("--no-requeue", is_flag=True, help="If its node is lost, let the job fail instead of restarting it."),
    click.option("--hold", is_flag=True, help="Do not start the job until weft release ID."),
    click.option("--no-share", is_flag=True, help="Run no other job on its devices."),
    click.option("--no-migrate", is_flag=True, help="Do not migrate the job to other devices to improve the schedule."),
    click.option(
        "--weight",
        type=float,
        metavar="N",
        help="Share of time relative to other jobs, where jobs take turns (policy gandiva).  [default: 1]",
    ),
    click.option(
        "--env",
        "env_words",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="Set an environment variable of the job; NAME alone copies its current value.",
    ),
    click.option("--clean-env", is_flag=True, help="Start from HOME, PATH and similar variables only, plus --env."),
    click.option(
        "--cwd", metavar="DIR", shell_complete=complete_folder, help="Working directory.  [default: the current one]"
    ),
    click.option(
        "--output",
        metavar="FILE",
        shell_complete=complete_command,
        help="Write output to this file: %j is the job id, %A and %a the array's number and index, %x the name, "
        "%t the task. The file is truncated when the job first starts, and later attempts append to it.",
    ),
    click.option(
        "--cpus",
        type=AT_LEAST_ONE,
        metavar="N",
        help="CPU cores that each task needs. Jobs that declare cores run only while the machine has that many.",
    ),
    click.option(
        "--begin", metavar="TIME", help="Earliest start: now+2h, 30m, 16:00, tomorrow, 2026-11-19T08:00 (local time)."
    ),
    click.option(
        "--priority",
        type=click.IntRange(LEAST_PRIORITY, MOST_PRIORITY),
        metavar="N",
        help="Order among your own jobs, -100 to 100, higher first; other tenants are not affected.  [default: 0]",
    ),
    click.option(
        "--gpu-ids",
        metavar="0,1",
        shell_complete=complete_device,
        help="Run on exactly these devices, numbered as in weft nodes.",
    ),
    click.option("--trust-checkpoint", is_flag=True, help=TRUST),
    click.option("--types", metavar="A100,V100", multiple=True, help="Device types it may use.  [default: any]"),
)


def job_options(command: Decorated) -> Decorated:
    for option in reversed(OPTIONS):
        command = option(command)
    return COMMAND(command)


def request_from_options(command: tuple[str, ...], array: str | None = None, **said: Any) -> dict[str, Any]:
    """The request to the daemon for the options on the command line."""
    refused = {name: False if said.pop(f"no_{name}") else None for name in ("requeue", "share", "migrate")}
    words, is_clean = said.pop("env_words", ()), said.pop("clean_env", False)
    if words or is_clean:
        said["env"] = with_variables(os.environ, words, is_clean=is_clean)
    options: Options = {**said, **refused, "hold": said.pop("hold") or None}  # type: ignore[typeddict-item]
    return job_request(command, array, options)
