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
    "Load checkpoints whatever is in them and whatever user may have written them. Without it, those that another user "
    "can have written, or that hold types which could run code, are refused."
)
OPTIONS = (
    click.option("--gpus", type=AT_LEAST_ONE, metavar="N", help="Devices in all.  [default: one for each task]"),
    click.option(
        "--ntasks",
        type=AT_LEAST_ONE,
        metavar="M",
        help="Start M processes as one gang, each with torchrun's variables (RANK, WORLD_SIZE, ...).  [default: 1]",
    ),
    click.option(
        "--gpu-mem",
        metavar="SIZE",
        help="Device memory each task may use, as in 4G: what PyTorch allocates there. The rest goes to disk, which is "
        "slow; it fails with strict_memory = true in weft.toml, or without weft's native library.",
    ),
    click.option(
        "--mem",
        metavar="SIZE",
        help="Host memory it may use besides, as in 16G. On cpu devices, which have the host's, both together bound "
        "the private memory (RLIMIT_DATA) of each process; more fails.",
    ),
    click.option(
        "--class",
        "job_class",
        type=click.Choice(CLASSES),
        help="guaranteed runs as if alone, opportunistic uses what is left.  [default: auto]",
    ),
    click.option("--name", metavar="X", help="What to call it in listings."),
    click.option(
        "--time",
        metavar="TIME",
        help="How long it may run: 90s, 30m, 2h, 1d, HH:MM:SS, D-HH:MM:SS; a number is seconds.",
    ),
    click.option("--tenant", metavar="NAME", envvar="WEFT_TENANT", help="On whose account.  [env: WEFT_TENANT]"),
    click.option("--steps", type=AT_LEAST_ONE, metavar="N", help="How many steps it will make; gives an ETA."),
    click.option(
        "--retries", type=click.IntRange(min=0), metavar="N", help="Start it again so often if it fails.  [default: 0]"
    ),
    click.option("--no-requeue", is_flag=True, help="Let it fail if its node is lost, instead of starting it again."),
    click.option("--hold", is_flag=True, help="Do not start it before weft release ID."),
    click.option("--no-share", is_flag=True, help="Let nobody else compute on its devices while it runs."),
    click.option("--no-migrate", is_flag=True, help="Do not move it to other devices only because that would pay."),
    click.option(
        "--weight",
        type=float,
        metavar="N",
        help="Where jobs take turns (policy gandiva): its part of the time against that of others.  [default: 1]",
    ),
    click.option(
        "--env",
        "env_words",
        metavar="NAME[=VALUE]",
        multiple=True,
        help="A variable for the job besides the present ones, or in place of one; NAME alone has its present value.",
    ),
    click.option("--clean-env", is_flag=True, help="Only HOME, PATH and the like, and what --env gives."),
    click.option("--cwd", metavar="DIR", shell_complete=complete_folder, help="Where it runs.  [default: here]"),
    click.option(
        "--output",
        metavar="FILE",
        shell_complete=complete_command,
        help="Write what it prints to this file: %j is its id, %A and %a the array's number and index, %x its name, "
        "%t the task. Emptied when the job first starts, then appended to.",
    ),
    click.option(
        "--cpus",
        type=AT_LEAST_ONE,
        metavar="N",
        help="CPU cores each task needs: together, jobs that declare them get no more than there are.",
    ),
    click.option(
        "--begin", metavar="TIME", help="Not before: now+2h, 30m, 16:00, tomorrow, 2026-11-19T08:00 (local time)."
    ),
    click.option(
        "--priority",
        type=click.IntRange(LEAST_PRIORITY, MOST_PRIORITY),
        metavar="N",
        help="Among your own jobs those of a higher one go first, -100 to 100; others' turns stay.  [default: 0]",
    ),
    click.option(
        "--gpu-ids",
        metavar="0,1",
        shell_complete=complete_device,
        help="These devices, as weft nodes numbers them, all of them and no others.",
    ),
    click.option("--trust-checkpoint", is_flag=True, help=TRUST),
    click.option("--types", metavar="A100,V100", multiple=True, help="Device types it may use.  [default: any]"),
)


def job_options(command: Decorated) -> Decorated:
    for option in reversed(OPTIONS):
        command = option(command)
    return COMMAND(command)


def asked(command: tuple[str, ...], array: str | None = None, **said: Any) -> dict[str, Any]:
    """What to send to the daemon for what was said on the command line."""
    refused = {name: False if said.pop(f"no_{name}") else None for name in ("requeue", "share", "migrate")}
    words, is_clean = said.pop("env_words", ()), said.pop("clean_env", False)
    if words or is_clean:
        said["env"] = with_variables(os.environ, words, is_clean=is_clean)
    options: Options = {**said, **refused, "hold": said.pop("hold") or None}  # type: ignore[typeddict-item]
    return job_request(command, array, options)
